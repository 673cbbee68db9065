"""isoscope: a microscope for the geometry of Transformer representations.

    >>> import isoscope, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((1000, 16)) + 1
    >>> found = isoscope.geometry(X)
    >>> bool(0.45 < found["mean_cosine"] < 0.55), found["mean_cosine"].n
    (True, 1000)

What is listed in `__all__` is documented, typed and stable; the rest is private. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.core.number import Number
from isoscope.core.version import __version__

if TYPE_CHECKING:
    from isoscope import metrics, repair
    from isoscope.engine.geometry import geometry
    from isoscope.engine.measure import measure
    from isoscope.engine.results import Results, merge, open
    from isoscope.engine.sweep import sweep
    from isoscope.engine.watching.lightning_callback import LightningWatch
    from isoscope.engine.watching.trainer_callback import WatchCallback
    from isoscope.engine.watching.watch import watch

__all__ = [
    "IsoscopeError",
    "IsoscopeWarning",
    "LightningWatch",
    "Number",
    "Results",
    "WatchCallback",
    "__version__",
    "geometry",
    "measure",
    "merge",
    "metrics",
    "open",
    "repair",
    "sweep",
    "watch",
]

_FOUND_IN = {
    "LightningWatch": "isoscope.engine.watching.lightning_callback",
    "Results": "isoscope.engine.results",
    "WatchCallback": "isoscope.engine.watching.trainer_callback",
    "geometry": "isoscope.engine.geometry",
    "measure": "isoscope.engine.measure",
    "merge": "isoscope.engine.results",
    "open": "isoscope.engine.results",
    "sweep": "isoscope.engine.sweep",
    "watch": "isoscope.engine.watching.watch",
}


def __getattr__(name: str) -> Any:
    if name in _FOUND_IN:
        return getattr(importlib.import_module(_FOUND_IN[name]), name)
    if name in ("metrics", "repair"):
        return importlib.import_module(f"isoscope.{name}")
    raise AttributeError(f"module 'isoscope' has no attribute {name!r}")
