"""Where vectors are taken from a model while it runs: blocks, hooks, attention."""
