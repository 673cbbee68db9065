"""Readers of matrices in files, in blocks of rows."""
