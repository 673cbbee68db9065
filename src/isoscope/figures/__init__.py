"""Figures: one pure function a file, from the two tables to a chart. What they share is in `isoscope.drawing`."""

from __future__ import annotations

from isoscope.core.figure import Figure
from isoscope.core.registry import Registry

figures: Registry[Figure] = Registry(Figure, "figure", __name__)
