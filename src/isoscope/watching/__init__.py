"""Watching the geometry of a model while a training loop of the user trains it."""
