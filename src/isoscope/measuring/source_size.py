"""How many tokens a model will read, guessed from the files of its source and their first items: for a plan."""

from __future__ import annotations

from itertools import islice
from statistics import fmean
from typing import Any

from isoscope.core.source import Clip, Source
from isoscope.models.naming.model_name import ModelReference
from isoscope.sources._file_parts import FileBytes
from isoscope.trust.safe_io import read_json

FIRST_ITEMS = 16
"""Items that are read to guess the size of one."""
TOKEN_BYTES = 4.0
"""Bytes of text in a token of a vocabulary of words and parts of words."""
PATCHES = 256
"""Tokens of an image: 16 × 16 patches."""
FRAMES = 50
"""Frames of speech per second."""


def guess_tokens(source: Source, reference: ModelReference, max_items: int | None = None, max_tokens: int | None = None) -> int | None:
    """How many tokens the model reads, within a factor of about two; `max_tokens` if the source has no files whose size says more."""
    of_files: FileBytes | None = getattr(source, "file_bytes", None)
    if of_files is None:
        return max_tokens
    contents = [item.content for item in islice(source.items(), FIRST_ITEMS)]
    symbols = _reads_symbols(reference)
    each = fmean(_count_tokens(content, symbols=symbols) for content in contents)
    is_text = source.modality == "text"
    there = of_files.size / fmean(len(content.encode()) for content in contents) if is_text else len(of_files.files)
    items = min(there, max_items or there)
    if source.modality == "images":  # of which `max_tokens` counts the images
        return round(each * min(items, max_tokens or items))
    tokens = round(each * items)
    return min(tokens, max_tokens or tokens)


def _count_tokens(content: Any, *, symbols: bool) -> float:
    if isinstance(content, str):
        return len(content.encode()) / (1.0 if symbols else TOKEN_BYTES)
    return FRAMES * len(content.samples) / content.rate if isinstance(content, Clip) else PATCHES


def _reads_symbols(reference: ModelReference) -> bool:
    """Whether a model of text has so few tokens that each is a character or a byte."""
    from isoscope.models.loading.family import FEW_SYMBOLS  # here, so that a missing torch is reported by what needs it

    path = reference.folder / "config.json"
    config = read_json(path) if path.is_file() else None
    size = config.get("vocab_size") if isinstance(config, dict) else None
    return isinstance(size, int) and size < FEW_SYMBOLS
