"""Readers: how the items of each modality become the inputs of a model."""
