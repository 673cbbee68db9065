"""Which files of a folder or a repository make up its model: those with the weights, and the folder of the Transformer in it.

Only an index of shards, and the list of modules of a sentence-transformers folder, are opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.trust.safe_io import parse_json, read_json, read_text

SINGLE = {".safetensors": "model.safetensors", ".bin": "pytorch_model.bin"}
"""The name that transformers gives to weights in one file; shards have an index next to them."""
LONE = (".pt", ".ckpt")
"""Endings of checkpoints that are one file: two of them are two models."""
NOT_WEIGHTS = ("training_args", "optimizer", "scheduler", "rng_state", "scaler", "adapter_model")
MODULES = "modules.json"
"""The list of modules of a sentence-transformers folder, which is a chain of them. The first one is the model that is measured."""


def weight_files(place: str, names: Iterable[str], read: Callable[[str], str], *, lone: tuple[str, ...] = LONE) -> list[str]:
    """The files among `names` that hold the weights, sorted; an empty list if there are none.

    safetensors come before .bin, .bin before a lone checkpoint. A single file comes before shards; their index is read by `read`
    (name → text). `place` is the folder as error messages call it.
    """
    # The order is that of transformers, so that the weights are those that from_pretrained would load.
    known = {name for name in names if not name.startswith(NOT_WEIGHTS)}
    for ending, single in SINGLE.items():
        index = f"{single}.index.json"
        if single in known:
            return [single]
        if index in known:
            return _indexed_shards(place, index, read, known)
        if files := sorted(name for name in known if name.endswith(ending)):
            return files
    for ending in lone:
        files = sorted(name for name in known if name.endswith(ending))
        if len(files) > 1:
            raise IsoscopeError(f"{place} holds {len(files)} checkpoints ({', '.join(files[:4])}); name one of them.")
        if files:
            return files
    return []


def _indexed_shards(place: str, index: str, read: Callable[[str], str], known: set[str]) -> list[str]:
    try:
        content: Any = parse_json(read(index))
        shards = sorted({str(name) for name in content["weight_map"].values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise IsoscopeError(f"{index} of {place} cannot be read as an index of shards; copy or download it again.") from error
    if missing := [name for name in shards if name not in known]:
        raise IsoscopeError(f"{place} lacks {missing[0]}, which {index} names ({len(missing)} of {len(shards)} shards are missing).")
    return shards


def weights_in(folder: Path) -> list[Path]:
    """The files of a folder that hold its weights."""
    names = [path.name for path in folder.iterdir() if path.is_file()]
    return [folder / name for name in weight_files(str(folder), names, lambda name: read_text(folder / name))]


def is_standard(folder: Path) -> bool:
    """Whether from_pretrained finds the weights by their name, so that `read_state` is not needed."""
    return any((folder / name).is_file() for single in SINGLE.values() for name in (single, f"{single}.index.json"))


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
