"""The same cloud, measured as different sources define it."""
