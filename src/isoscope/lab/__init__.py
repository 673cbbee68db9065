"""Experiments that need no data: what chance gives, and what an untrained network does."""
