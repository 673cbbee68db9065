"""Checkpoints as they are found: which files hold the weights, and what from_pretrained does not read by itself."""
