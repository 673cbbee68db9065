"""Experiments that need no data: the isotropic null, and the untrained block."""
