"""What isotropic clouds of the same size and dimension would give."""
