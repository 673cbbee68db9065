"""A sentence-transformers folder is a chain of modules. The first one is the model that is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.trust.safe_io import read_json

MODULES = "modules.json"


def transformer_folder(folder: Path) -> Path:
    """The folder of the Transformer in a sentence-transformers folder; any other folder is returned as given."""
    inside = folder / transformer_path(folder)
    if not inside.is_dir():
        raise IsoscopeError(f"{MODULES} of {folder} names the folder {inside.name} for its Transformer, and it is not there.")
    return inside


def transformer_path(folder: Path) -> str:
    """The path of the Transformer by modules.json, relative to the folder: `""` or a name such as `0_Transformer`."""
    if not (folder / MODULES).is_file():
        return ""
    try:
        modules: Any = read_json(folder / MODULES)
        first = min(modules, key=lambda module: int(module["idx"]))
        kind, path = str(first["type"]).rpartition(".")[2], str(first["path"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IsoscopeError(f"{folder / MODULES} cannot be read as a list of sentence-transformers modules.") from error
    if kind != "Transformer":
        raise IsoscopeError(f"The first module of {folder} is {kind}; it must be a Transformer, for nothing else has layers to measure.")
    if path.startswith("/") or ".." in Path(path).parts:
        raise IsoscopeError(f"{folder / MODULES} points outside its folder ({path}); it was not followed.")
    return path.strip("/")
