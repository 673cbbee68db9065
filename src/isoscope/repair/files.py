"""A fitted repair on disk: one safetensors file, its arrays and, as metadata, what it is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from isoscope.core.bounded import parse_json
from isoscope.core.version import __version__
from isoscope.repair.errors import RepairError

if TYPE_CHECKING:
    from isoscope.repair.transformer import Repair

R = TypeVar("R", bound="Repair")
FORMAT = "isoscope.repair/1"


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
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
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
    known = {kind.__name__: kind for kind in _kinds(cls)}
    if metadata.get("class") not in known:
        raise RepairError(f"{path} holds {metadata.get('class')}, not {cls.__name__}; isoscope.repair.load reads any repair.")
    try:
        fitted = known[metadata["class"]](**parse_json(metadata["parameters"]))
        fitted.n_samples_seen_, fitted.n_features_in_ = int(metadata["n"]), int(metadata["d"])
        for name in fitted._arrays:
            setattr(fitted, name, arrays[name])
        if "feature_names" in metadata:
            fitted.feature_names_in_ = np.array(parse_json(metadata["feature_names"]), dtype=object)
        width = fitted._map()(np.zeros((1, fitted.n_features_in_)) - fitted.mean_).shape[1]
        if fitted.mean_.shape != (fitted.n_features_in_,) or width != fitted._n_features_out:
            raise ValueError("its arrays do not fit each other")
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise RepairError(f"{path} is damaged ({error}); fit and save it again.") from error
    return fitted


def _kinds(cls: type[R]) -> list[type[R]]:
    return [cls, *(kind for below in cls.__subclasses__() for kind in _kinds(below))]
