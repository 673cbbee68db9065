"""Small networks trained here, checkpoint by checkpoint: where there are no public ones to measure along a training."""
