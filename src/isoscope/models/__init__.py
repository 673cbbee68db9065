"""Models: what a name refers to, how it is loaded, where it is tapped."""
