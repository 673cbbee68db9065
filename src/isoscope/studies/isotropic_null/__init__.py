"""The numbers that isotropic clouds of the same size and dimension would give."""
