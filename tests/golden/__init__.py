"""Stored results of small measurements, which a restructuring must not change: see docs/how-to/restructure-safely.md."""
