"""Watching the geometry of a model while somebody else's loop trains it."""
