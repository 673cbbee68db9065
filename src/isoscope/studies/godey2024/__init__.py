"""Paper 1: Anisotropy Is Inherent to Self-Attention in Transformers."""
