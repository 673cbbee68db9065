"""The border: every reader of a stranger's bytes, with limits."""
