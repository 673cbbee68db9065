"""Small networks that are trained here, checkpoint by checkpoint, to measure trainings that have no public checkpoints."""
