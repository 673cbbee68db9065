"""What the name of a model refers to: folders, files, a hub, suites of checkpoints."""
