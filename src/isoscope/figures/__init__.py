"""Figures of the instrument: pure functions from the two tables to a chart. `isoscope.charts` holds what figures share."""

from __future__ import annotations

from isoscope.core.figure import Figure
from isoscope.core.registry import Registry

figures: Registry[Figure] = Registry(Figure, "figure", __name__, "isoscope.studies.*.figures")
