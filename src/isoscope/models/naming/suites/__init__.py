"""The checkpoints of a training: in a folder, under a pattern of paths, on the hub."""
