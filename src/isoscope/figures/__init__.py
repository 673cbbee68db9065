"""Figures: pure functions from the two tables to a chart. A file holds the variants of one figure; `isoscope.drawing` what all share."""

from __future__ import annotations

from isoscope.core.figure import Figure
from isoscope.core.registry import Registry

figures: Registry[Figure] = Registry(Figure, "figure", __name__)
