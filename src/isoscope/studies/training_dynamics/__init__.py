"""Changes over the checkpoints of a training: how large they are, and which one comes first."""
