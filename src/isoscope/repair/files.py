"""A fitted repair on disk: one safetensors file, its arrays and, as metadata, what it is."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from isoscope.core.bounded import parse_json
from isoscope.core.temporary import temporary_for
from isoscope.core.version import __version__
from isoscope.repair.errors import RepairError

if TYPE_CHECKING:
    from isoscope.repair.transformer import Repair

R = TypeVar("R", bound="Repair")
FORMAT = "isoscope.repair/1"
AXES = {"mean_": (1,), "scale_": (1,), "variances_": (1,), "ridge_": (0,), "components_": (2, 3)}
"""How many axes an array may have; those of the others are two."""


def write(fitted: Repair, path: Path) -> None:
    """Write under another name and rename: the file is there whole or not at all."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    metadata = {
        "format": FORMAT,
        "class": type(fitted).__name__,
        "parameters": json.dumps(fitted.get_params(deep=False), default=_plain),
        "isoscope": __version__,
        "n": str(fitted.n_samples_seen_),
        "d": str(fitted.n_features_in_),
    }
    if hasattr(fitted, "feature_names_in_"):
        metadata["feature_names"] = json.dumps(list(fitted.feature_names_in_))
    arrays = {name: np.array(getattr(fitted, name), order="C") for name in fitted._arrays}
    temporary = temporary_for(path)
    try:
        save_file(arrays, temporary, metadata=metadata)
        temporary.replace(path)
    except (OSError, SafetensorError) as error:
        raise RepairError(f"Cannot write {path}: {error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    """A parameter that came from numpy, as JSON knows it."""
    if isinstance(value, np.generic):
        return value.item()
    raise RepairError(f"A parameter of the type {type(value).__name__} cannot be written to a file.")


def read(cls: type[R], path: Path) -> R:
    """The fitted transformer in a file, which must be a `cls`."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise RepairError(f"There is no file {path}.") from None
    except (OSError, SafetensorError, ValueError, OverflowError, MemoryError) as error:  # numpy has limits of its own
        raise RepairError(f"{path} is not a repair that isoscope saved ({error}).") from None
    if metadata.get("format") != FORMAT:
        raise RepairError(f"{path} is not a repair that isoscope saved: its metadata do not say {FORMAT}.")
    known = {kind.__name__: kind for kind in _kinds(cls) if not inspect.isabstract(kind)}
    if metadata.get("class") not in known:
        raise RepairError(f"{path} holds {metadata.get('class')}, not {cls.__name__}; isoscope.repair.load reads any repair.")
    try:
        return _fitted(known[metadata["class"]], metadata, arrays)
    except (ValueError, IndexError) as error:  # the latter where arrays do not fit each other
        raise RepairError(f"{path} is damaged ({str(error).rstrip('.')}); fit and save it again.") from error


def _fitted(kind: type[R], metadata: dict[str, str], arrays: dict[str, np.ndarray]) -> R:
    """The transformer that a file describes; a ValueError where it describes none."""
    if absent := [name for name in ("parameters", "n", "d") if name not in metadata]:
        raise ValueError(f"it lacks {absent[0]}")
    parameters, n, d = parse_json(metadata["parameters"]), int(metadata["n"]), int(metadata["d"])
    if not isinstance(parameters, dict) or set(parameters) - set(kind._get_param_names()):
        raise ValueError(f"its parameters are {parameters!r:.60}")
    fitted = kind(**parameters)
    fitted._check_parameters(d)
    fitted.n_samples_seen_, fitted.n_features_in_ = n, d
    for name in kind._arrays:
        array = arrays.get(name)
        if array is None or array.dtype.kind != "f" or array.ndim not in AXES.get(name, (2,)):
            raise ValueError(f"it has no {name}, or none of numbers in its form")
        setattr(fitted, name, array)
    if fitted.mean_.shape != (d,):
        raise ValueError(f"its mean has {len(fitted.mean_)} dimensions, and it is of {d}")
    if "feature_names" in metadata:
        names = parse_json(metadata["feature_names"])
        if not isinstance(names, list) or len(names) != d or not all(isinstance(name, str) for name in names):
            raise ValueError("its names of features are not those of its dimensions")
        fitted.feature_names_in_ = np.array(names, dtype=object)
    if fitted._map()(np.zeros((1, d)) - fitted.mean_).shape[1] != fitted._n_features_out:
        raise ValueError("its arrays do not fit each other")
    return fitted


def _kinds(cls: type[R]) -> list[type[R]]:
    return [cls, *(kind for below in cls.__subclasses__() for kind in _kinds(below))]
