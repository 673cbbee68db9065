"""Figures over the steps of a training."""
