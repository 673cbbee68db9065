"""Which files of a folder or a repository are the weights; nothing is opened but an index of shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from isoscope.core.bounded import parse_json, read_text
from isoscope.core.errors import IsoscopeError

WHOLE = {".safetensors": "model.safetensors", ".bin": "pytorch_model.bin"}
"""The name that transformers gives to weights in one file; shards have an index beside them."""
LONE = (".pt", ".ckpt")
"""Endings of checkpoints that stand alone: two of them are two models."""
NOT_WEIGHTS = ("training_args", "optimizer", "scheduler", "rng_state", "scaler", "adapter_model")


def weight_files(place: str, names: Iterable[str], read: Callable[[str], str], *, lone: tuple[str, ...] = LONE) -> list[str]:
    """The files among `names` that hold the weights, sorted; none where there are none.

    safetensors come before .bin, .bin before a lone checkpoint. A whole file comes before shards, which `read` (name → text) looks
    up in their index. `place` is what a sentence calls the folder.
    """
    known = {name for name in names if not name.startswith(NOT_WEIGHTS)}
    for ending, whole in WHOLE.items():
        index = f"{whole}.index.json"
        if whole in known:
            return [whole]
        if index in known:
            return _shards(place, index, read(index), known)
        if found := sorted(name for name in known if name.endswith(ending)):
            return found
    for ending in lone:
        found = sorted(name for name in known if name.endswith(ending))
        if len(found) > 1:
            raise IsoscopeError(f"{place} holds {len(found)} checkpoints ({', '.join(found[:4])}); name one of them.")
        if found:
            return found
    return []


def _shards(place: str, index: str, text: str, known: set[str]) -> list[str]:
    try:
        found: Any = parse_json(text)
        shards = sorted({str(name) for name in found["weight_map"].values()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IsoscopeError(f"{index} of {place} cannot be read as an index of shards; copy or download it again.") from error
    if missing := [name for name in shards if name not in known]:
        raise IsoscopeError(f"{place} lacks {missing[0]}, which {index} names ({len(missing)} of {len(shards)} shards are missing).")
    return shards


def weights_in(folder: Path) -> list[Path]:
    """The files of a folder that hold its weights."""
    names = [path.name for path in folder.iterdir() if path.is_file()]
    return [folder / name for name in weight_files(str(folder), names, lambda name: read_text(folder / name))]


def is_standard(folder: Path) -> bool:
    """Whether from_pretrained finds the weights by their name, so that `read_state` is not needed for it."""
    return any((folder / name).is_file() for whole in WHOLE.values() for name in (whole, f"{whole}.index.json"))
