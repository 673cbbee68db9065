"""Altair, imported when a chart is first drawn: `from isoscope.charts import lazy_altair as alt`.

Altair is an optional dependency and takes half a second to import. Names and captions of figures are listed without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # tools that inspect modules ask for these, and must not get those of Altair
        raise AttributeError(name)
    return getattr(import_module("altair"), name)
