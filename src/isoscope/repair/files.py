"""The file of a fitted repair: one safetensors file with its arrays, and its class and parameters as metadata."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isoscope import __version__
from isoscope.core.temporary import temporary_path
from isoscope.repair.errors import RepairError
from isoscope.trust.safe_io import parse_json

FORMAT = "isoscope.repair/1"


@dataclass(frozen=True)
class SavedRepair:
    """The content of a file. Nothing in it is checked but its types: a file may come from anywhere."""

    class_name: str
    parameters: dict[str, Any]
    n: int
    d: int
    feature_names: list[str] | None
    arrays: dict[str, np.ndarray]


def write_repair(path: Path, repair: SavedRepair) -> None:
    """Write the file under a temporary name and rename it, so that it is complete or absent."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    metadata = {
        "format": FORMAT,
        "class": repair.class_name,
        "parameters": json.dumps(repair.parameters, default=np.generic.item),
        "isoscope": __version__,
        "n": str(repair.n),
        "d": str(repair.d),
    }
    if repair.feature_names is not None:
        metadata["feature_names"] = json.dumps(repair.feature_names)
    temporary = temporary_path(path)
    try:
        save_file(repair.arrays, temporary, metadata=metadata)
        temporary.replace(path)
    except (OSError, SafetensorError) as error:
        raise RepairError(f"Cannot write {path}: {error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def read_repair(path: Path) -> SavedRepair:
    """The content of a file that `write_repair` wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise RepairError(f"There is no file {path}.") from None
    except (OSError, SafetensorError, ValueError, OverflowError, MemoryError) as error:  # the last three: shapes too large for numpy
        raise RepairError(f"{path} is not a repair that isoscope saved ({error}).") from None
    if metadata.get("format") != FORMAT:
        raise RepairError(f"{path} is not a repair that isoscope saved: its metadata do not say {FORMAT}.")
    try:
        return _parse(metadata, arrays)
    except ValueError as error:
        raise damaged_file(path, error) from error


def _parse(metadata: dict[str, str], arrays: dict[str, np.ndarray]) -> SavedRepair:
    if absent := [name for name in ("class", "parameters", "n", "d") if name not in metadata]:
        raise ValueError(f"it lacks {absent[0]}")
    parameters, n, d = parse_json(metadata["parameters"]), int(metadata["n"]), int(metadata["d"])
    if not isinstance(parameters, dict):
        raise ValueError(f"its parameters are {parameters!r:.60}")
    names = parse_json(metadata["feature_names"]) if "feature_names" in metadata else None
    if names is not None and not (isinstance(names, list) and len(names) == d and all(isinstance(name, str) for name in names)):
        raise ValueError(f"its feature names are not {d} strings")
    return SavedRepair(metadata["class"], parameters, n, d, names, arrays)


def damaged_file(path: Path, error: Exception) -> RepairError:
    """The error for a file whose content is inconsistent."""
    return RepairError(f"{path} is damaged ({str(error).rstrip('.')}); fit and save it again.")
