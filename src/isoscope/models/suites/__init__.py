"""Where the checkpoints of a training are found: in a folder, under a pattern of paths, on the hub."""
