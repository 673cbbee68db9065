"""isoscope: a microscope for the geometry of Transformer representations.

    >>> import isoscope, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((1000, 16)) + 1
    >>> found = isoscope.geometry(X)
    >>> bool(0.45 < found["mean_cosine"] < 0.55), found["mean_cosine"].n
    (True, 1000)

`__all__` is documented, typed and stable, and so are `isoscope.plugins` and `isoscope.testing`, for extensions; the rest is private.
Nothing heavy is imported before it is used.
"""

__version__ = "0.1.0"

# `python -m isoscope` runs this file while the current folder is still on sys.path: it imports nothing, not even typing.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from isoscope import metrics, repair
    from isoscope.core.errors import IsoscopeError, IsoscopeWarning
    from isoscope.core.number import Number
    from isoscope.measuring.measure import measure
    from isoscope.measuring.sweep import sweep
    from isoscope.runs.embedding_diagnosis import diagnose
    from isoscope.runs.matrix_geometry import geometry
    from isoscope.runs.merging import merge
    from isoscope.runs.results import Results, open
    from isoscope.watching.callbacks import LightningWatch, WatchCallback
    from isoscope.watching.watch import watch

__all__ = [
    "IsoscopeError",
    "IsoscopeWarning",
    "LightningWatch",
    "Number",
    "Results",
    "WatchCallback",
    "__version__",
    "diagnose",
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
    "IsoscopeError": "isoscope.core.errors",
    "IsoscopeWarning": "isoscope.core.errors",
    "LightningWatch": "isoscope.watching.callbacks",
    "Number": "isoscope.core.number",
    "Results": "isoscope.runs.results",
    "WatchCallback": "isoscope.watching.callbacks",
    "diagnose": "isoscope.runs.embedding_diagnosis",
    "geometry": "isoscope.runs.matrix_geometry",
    "measure": "isoscope.measuring.measure",
    "merge": "isoscope.runs.merging",
    "open": "isoscope.runs.results",
    "sweep": "isoscope.measuring.sweep",
    "watch": "isoscope.watching.watch",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'isoscope' has no attribute {name!r}")
    import importlib

    from isoscope.core.errors import missing_extras_as_user_errors

    with missing_extras_as_user_errors(f"isoscope.{name}"):
        found = importlib.import_module(_FOUND_IN.get(name, f"isoscope.{name}"))
        return getattr(found, name) if name in _FOUND_IN else found
