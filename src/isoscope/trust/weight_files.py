"""Which files of a folder or a repository hold the weights. Only an index of shards is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.trust.safe_io import parse_json, read_text

SINGLE = {".safetensors": "model.safetensors", ".bin": "pytorch_model.bin"}
"""The name that transformers gives to weights in one file; shards have an index next to them."""
LONE = (".pt", ".ckpt")
"""Endings of checkpoints that are one file: two of them are two models."""
NOT_WEIGHTS = ("training_args", "optimizer", "scheduler", "rng_state", "scaler", "adapter_model")


def weight_files(place: str, names: Iterable[str], read: Callable[[str], str], *, lone: tuple[str, ...] = LONE) -> list[str]:
    """The files among `names` that hold the weights, sorted; an empty list if there are none.

    safetensors come before .bin, .bin before a lone checkpoint. A single file comes before shards; their index is read by `read`
    (name → text). `place` is the folder as error messages call it.
    """
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
