"""The words everything else is written in: sites, slices, numbers, tables, registries, errors. No torch, no transformers."""
