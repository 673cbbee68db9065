"""How items of each modality become what a model is fed."""
