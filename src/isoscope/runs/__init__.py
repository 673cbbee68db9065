"""Cells on disk: a folder each, the manifest written last, nothing half-written ever read."""
