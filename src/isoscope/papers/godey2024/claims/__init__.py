"""The claims of "Anisotropy Is Inherent to Self-Attention in Transformers", one a file."""
