"""Stored results of small measurements, which a restructuring must not change: see docs/restructuring.md."""
