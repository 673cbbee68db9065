"""The five groups of models that are compared with each other, and a model's layers in one row from first to last."""

from __future__ import annotations

import pandas as pd

from isoscope.core.site import stack_order

GROUPS: dict[str, str] = {
    "token": "Token-level models",
    "character": "Character-level models",
    "speech": "Speech models",
    "vision": "Vision Transformers",
    "convolution": "Convolutional networks",
}
"""Every group and its title, in the order of "Anisotropy Is Inherent to Self-Attention"."""

UNTRAINED = "untrained:"
"""What the name of an untrained twin begins with."""

UNIT = ["model", "revision", "step", "seed"]
"""What makes a network of its own, whatever stacks it has."""

_OF_MODALITY = {"text": "token", "characters": "character", "speech": "speech", "images": "vision"}


def group_of(modality: object, family: object) -> str | None:
    """The group of a model; None where it is in none of them, as a bare matrix is.

    >>> group_of("text", "decoder"), group_of("images", "hierarchical"), group_of("images", "convolution"), group_of(pd.NA, pd.NA)
    ('token', 'vision', 'convolution', None)
    """
    group = _OF_MODALITY.get(str(modality))
    return "convolution" if group == "vision" and str(family) == "convolution" else group


def grouped(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of models that are in a group, with a column `group`."""
    known = table[["modality", "family"]].drop_duplicates()
    names = {(str(m), str(f)): group_of(m, f) for m, f in zip(known["modality"], known["family"], strict=True)}
    groups = [names[str(m), str(f)] for m, f in zip(table["modality"], table["family"], strict=True)]
    rows = table.assign(group=pd.Series(groups, index=table.index, dtype="string"))
    return rows[rows["group"].notna()]


def in_a_row(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of layers with their `place` in the whole network and its `depth` from 0 to 1: stacks follow each other.

    A stack that follows another starts one place after the other's last layer; `seam` is how many places came before its own.
    """
    keys = rows[[*UNIT, "stack"]].astype("string").fillna("")
    last = rows["layer"].groupby([keys[name] for name in keys]).max()
    seams: dict[tuple[str, ...], int] = {}
    ends: dict[tuple[str, ...], int] = {}
    for *unit, stack in sorted(last.index, key=lambda key: (*key[:-1], stack_order(key[-1]))):
        start = ends.get(tuple(unit), 0)
        seams[*unit, stack] = start
        ends[tuple(unit)] = start + int(last[(*unit, stack)]) + 1
    found = [tuple(map(str, key)) for key in keys.to_numpy()]
    seam = pd.Series([seams[key] for key in found], index=rows.index, dtype="Int64")
    whole = pd.Series([max(ends[key[:-1]] - 1, 1) for key in found], index=rows.index, dtype="Int64")
    place = rows["layer"] + seam
    return rows.assign(seam=seam, place=place, depth=(place / whole).astype("float64"))
