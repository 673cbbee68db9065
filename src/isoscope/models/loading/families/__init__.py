"""Families of models, by what they read. Readers that several of them share are in `readers/`."""
