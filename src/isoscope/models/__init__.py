"""Models: what a name means, how it loads, where it is tapped."""
