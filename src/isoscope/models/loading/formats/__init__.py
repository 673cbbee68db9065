"""Formats of checkpoints: which files hold the weights, and readers for those that from_pretrained does not read by itself."""
