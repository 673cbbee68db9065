"""Reproduce a paper: plan its experiments, do what is missing, draw its figures."""
