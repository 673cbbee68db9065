"""isoscope: a microscope for the geometry of Transformer representations."""

from __future__ import annotations

__version__ = "0.1.0"
