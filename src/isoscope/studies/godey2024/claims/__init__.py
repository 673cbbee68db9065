"""The claims of "Anisotropy Is Inherent to Self-Attention in Transformers": one file per numbered statement."""
