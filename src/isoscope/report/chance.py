"""Which layers are anisotropic, and against which yardstick: two nulls that are often mistaken for each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from isoscope.statistics.chance import one_pair

FIXED = (0.1, 0.2)
"""Thresholds that do not depend on the dimension; 0.2 is the one of "Anisotropy Is Inherent to Self-Attention"."""


@dataclass(frozen=True)
class Verdict:
    """Of `layers`, those whose cosine surely exceeds each threshold: the pair's 95th percentile, 0.1 and 0.2."""

    layers: tuple[str, ...]
    above: dict[float, tuple[str, ...]]
    """threshold: names of the sites above it, in order of depth. The first threshold is that of one pair."""

    with_interval: bool
    """Whether lower bounds were compared; if not, the values themselves."""

    @property
    def agreed(self) -> bool:
        """Whether every threshold gives the same layers."""
        return len(set(self.above.values())) == 1


def verdict(rows: pd.DataFrame) -> Verdict:
    """The verdict over rows of one metric, one line and one policy; a value that is not defined exceeds nothing."""
    bound = rows["low"].where(rows["low"].notna(), rows["value"])
    names = [site_name(kind, layer) for kind, layer in zip(rows["kind"], rows["layer"], strict=True)]
    thresholds = (one_pair(int(rows["d"].max())), *FIXED)
    above = {t: tuple(name for name, low in zip(names, bound, strict=True) if low > t) for t in thresholds}
    return Verdict(tuple(names), above, bool(rows["low"].notna().all()))


def site_name(kind: object, layer: object) -> str:
    """A site's short name within its stack: the layer's number, or the kind of a site that is not a layer's.

    >>> site_name("hidden", 3), site_name("final", 12), site_name("input_embedding", pd.NA)
    ('3', 'final norm', 'input embedding')
    """
    if kind == "hidden" and not pd.isna(layer):  # type: ignore[call-overload]
        return str(layer)
    return "final norm" if kind == "final" else str(kind).replace("_", " ")


def spoken(names: Iterable[str]) -> str:
    """Sites as one would say them, runs of layers joined.

    >>> spoken(["0", "1", "2", "5", "final norm"])
    'layers 0–2 and 5, and the state after the final norm'
    >>> spoken(["4"]), spoken([])
    ('layer 4', 'no layer')
    """
    names = list(names)
    numbers = [int(name) for name in names if name.isdigit()]
    words = runs(numbers)
    parts = []
    if words:
        parts.append(("layer " if len(numbers) == 1 else "layers ") + listed(words))
    parts += ["the state after the final norm" if name == "final norm" else f"the {name}" for name in names if not name.isdigit()]
    return ", and ".join(parts) if parts else "no layer"


def runs(numbers: Iterable[int]) -> list[str]:
    """Numbers in order, those that follow each other joined.

    >>> runs([3, 0, 1, 2, 7])
    ['0–3', '7']
    """
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in found]


def listed(words: list[str]) -> str:
    """Words joined by commas and a last "and".

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
