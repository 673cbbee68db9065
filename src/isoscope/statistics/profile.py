"""What a profile is: a number of a whole stack, a pure function of the clouds of its blocks, found by the name of its file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from isoscope.core.arrays import Floats
from isoscope.core.errors import IsoscopeError
from isoscope.core.number import THIS_N, Number
from isoscope.core.student import margin
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.declared import Declared
from isoscope.statistics.groups import effective_groups
from isoscope.statistics.simultaneous import band_factor

BLOCKS = 6
"""A stack of fewer blocks has no first sixth, or no middle third, of its own."""
ALIKE = 0.9
"""So large a part of each layer's documents must be in all layers' samples for an interval."""


@dataclass(frozen=True)
class Level:
    """What a profile keeps of one layer: its number, and how far each bootstrap draw of documents moves it."""

    value: float
    moved: Floats | None  # (draws,)
    documents: np.ndarray  # what the draws were made of, in increasing order
    whole: int  # documents of the layer's own sample
    effective: float  # documents that the draws were made of, those of many points counted as what they weigh
    n: int
    d: int


def humps(shares: Floats) -> Floats:
    """The mean over the middle third of blocks (last axis) minus that over the first sixth, and minus that over the last: (…, 2).

    Block l of L stands at the relative depth (l − ½)/L, so that a row read backwards gives the same two.
    """
    blocks = shares.shape[-1]
    depth = (np.arange(blocks) + 0.5) / blocks
    middle = (depth >= 1 / 3) & (depth <= 2 / 3)
    ends = [shares[..., end].mean(-1) for end in (depth <= 1 / 6, depth >= 5 / 6)]
    return np.asarray(shares[..., middle].mean(-1)[..., None] - np.stack(ends, axis=-1))


def bulge(shares: Floats) -> Floats:
    """The mean over the middle third of blocks (last axis) minus the larger of the means over the first and the last sixth.

    >>> float(bulge(np.array([0.1, 0.2, 0.6, 0.8, 0.2, 0.3])).round(3))
    0.4
    >>> float(bulge(np.arange(12.0)))
    -5.0
    """
    return np.asarray(humps(shares).min(-1))


def steps(shares: Floats) -> Floats:
    """The difference between any two blocks (last axis), the higher-numbered one less the other: (…, L(L − 1)/2).

    >>> steps(np.array([0.0, 1.0, 3.0])).tolist()
    [1.0, 3.0, 2.0]
    """
    first, second = np.triu_indices(shares.shape[-1], 1)
    return np.asarray(shares[..., second] - shares[..., first])


def spread(shares: Floats) -> Floats:
    """The largest minus the smallest over the blocks (last axis)."""
    return np.asarray(shares.max(-1) - shares.min(-1))


def shared_documents(units: Iterable[np.ndarray]) -> np.ndarray:
    """The documents that every sample has, in increasing order, from the document of each of its points.

    Every layer samples the same tokens; but a token is a sink in one layer and not in another, so that without sinks a
    document may be left with no point in some layer.
    """
    return reduce(np.intersect1d, units)


class Profile(Declared):
    """A number of a whole stack: call it with {layer: cloud} of its hidden states; layer 0, which enters the first block, is left out.

    Its interval is a bootstrap over documents with the *same* draws in every layer, so that what moves all layers together
    moves no difference between them. The draws give the standard error of each contrast between blocks, and `contrast_interval`
    goes from there to the least or the greatest of them.
    """

    reads = ("second",)
    wants = ("sample",)
    about = "stack"
    interval_about = THIS_N
    """It is made of a spectrum, whose shares have a bias at finite n."""

    def __init__(
        self,
        function: Callable[[Floats], Floats],
        *,
        of: Callable[[Floats], Floats],
        range: tuple[float, float],
        title: str,
        contrasts: Callable[[Floats], Floats],
        least: bool = False,
        on_request: bool = False,
    ) -> None:
        super().__init__(function, title=title, on_request=on_request)
        self.range, self._of, self._function, self._contrasts, self._least = range, of, function, contrasts, least

    def both_ways(self, shares: Floats) -> tuple[float, float]:
        """The number of these shares, and the least or the greatest of its contrasts: the two must be the same."""
        contrasts = self._contrasts(shares)
        return float(self._function(shares)), float(contrasts.min(-1) if self._least else np.abs(contrasts).max(-1))

    def available(self, cloud: object) -> bool:
        """Whether a layer's cloud kept what this profile must have."""
        return isinstance(cloud, Cloud) and cloud.n >= 2 and all(cloud.has(part) for part in self.reads)

    def __call__(self, clouds: Mapping[int, Cloud]) -> Number:
        """The number of a stack, from the clouds of its hidden states by layer, all under one token policy."""
        if not isinstance(clouds, Mapping):
            raise IsoscopeError(f"{self.name} is a number of a whole stack, and it was given one cloud; give it {{layer: cloud}}.")
        able = {layer: cloud for layer, cloud in clouds.items() if layer > 0 and self.available(cloud)}
        with_sample = [cloud for cloud in able.values() if cloud.has("sample")]
        documents = shared_documents(cloud.drawn.unit for cloud in with_sample) if with_sample else None
        return self.over({layer: self.level(cloud, documents) for layer, cloud in able.items()}, max(clouds, default=0))

    def level(self, cloud: Cloud, documents: np.ndarray | None = None) -> Level:
        """What is kept of one layer, with draws of these documents, or of all that its sample has."""
        own = np.unique(cloud.drawn.unit) if cloud.has("sample") else np.empty(0, np.uint64)
        chosen = own if documents is None else documents
        moved = cloud.spectral_moves(self._of, documents=None if np.array_equal(own, chosen) else chosen)
        sizes = np.unique(cloud.drawn.unit[np.isin(cloud.drawn.unit, chosen)], return_counts=True)[1] if len(own) else np.empty(0)
        effective = effective_groups(sizes.astype(np.float64)) if len(sizes) else 0.0
        return Level(cloud.spectral_value(self._of), moved, chosen, len(own), effective, cloud.n, cloud.d)

    def over(self, levels: Mapping[int, Level], last: int) -> Number:
        """The number of a stack whose last block is `last`, from what was kept of each of its layers."""
        blocks = {layer: levels[layer] for layer in sorted(levels) if layer > 0}
        n, d = min((level.n for level in blocks.values()), default=0), max((level.d for level in blocks.values()), default=0)
        if last < BLOCKS:
            return Number(np.nan, n=n, d=d, note=f"needs at least {BLOCKS} blocks, and this stack has {last}")
        lacking = [str(layer) for layer in range(1, last + 1) if layer not in blocks or np.isnan(blocks[layer].value)]
        if lacking:
            named = ", ".join(lacking[:4]) + (f" and {len(lacking) - 4} more" if len(lacking) > 4 else "")
            return Number(np.nan, n=n, d=d, note=f"needs the spectrum of every block; of {named} there is none")
        values = np.array([level.value for level in blocks.values()])
        value = float(self._function(values))
        drawn, note = _draws(list(blocks.values()))
        if drawn is None:
            return Number(value, n=n, d=d, note=note)
        freedom, documents = min(level.effective for level in blocks.values()) - 1, len(blocks[1].documents)
        moves = self._contrasts(independent_moves(drawn) * (documents / (documents - 1)) ** 0.5)
        low, high = contrast_interval(self._contrasts(values), moves, freedom, least=self._least)
        low, high = max(min(low, value), self.range[0]), min(max(high, value), self.range[1])
        return Number(value, n=n, d=d, low=low, high=high, note=note).set_interval_about(self.interval_about)


def independent_moves(drawn: Floats) -> Floats:
    """(k, layers) moves of all layers, k no more than there are layers, with the covariance of the draws (draws, layers)."""
    known = drawn[np.isfinite(drawn).all(1)]
    return np.asarray(np.linalg.qr(known - known.mean(0), mode="r") / max(len(known) - 1, 1) ** 0.5)


def contrast_interval(contrasts: Floats, moves: Floats, freedom: float, *, least: bool) -> tuple[float, float]:
    """A 95 % interval of the least of several contrasts between blocks, or of the greatest in size.

    The least is above a threshold where all are: its lower end is the least of their lower ends, and none need be wider for that. It is
    below where one of them is, and the least of several lies too low by chance: so its upper end is the least of the upper ends of a
    band that holds all contrasts at once, by max-t over the draws. The greatest is the same, turned round. Each contrast has Student's
    interval with the effective number of documents, since quantiles of draws of few documents are too narrow, and the larger of two
    ends is not smooth, so that its own draws do not say how far it moves.

    Args:
        contrasts: (m,) what was found.
        moves: (k, m) independent moves whose squares add up to the variance of each.
        freedom: degrees of freedom of a contrast's standard error.
        least: whether the number is the least of the contrasts; else it is the greatest of their sizes.

    >>> [round(end, 2) for end in contrast_interval(np.array([5.0]), np.array([[0.6], [0.8]]), 1e9, least=True)]
    [3.04, 6.96]
    """
    if not freedom > 0:
        return np.nan, np.nan
    halves = margin(1.0, freedom) * np.sqrt((moves**2).sum(0))
    wide = band_factor(moves, freedom) * halves
    if least:
        return float((contrasts - halves).min()), float((contrasts + wide).min())
    sizes = np.abs(contrasts)
    return float((sizes - wide).max()), float((sizes + halves).max())


def _draws(levels: list[Level]) -> tuple[Floats | None, str]:
    """(draws, layers) how far each draw moves each layer, or None; and a note on what was left out, or why there is none."""
    first = levels[0].documents
    if any(level.moved is None for level in levels):
        return None, "no interval: it needs a sample with at least three documents in every layer"
    if any(not np.array_equal(level.documents, first) for level in levels):
        return None, "no interval: the layers were drawn from different documents"
    most = max(level.whole for level in levels)
    if len(first) < ALIKE * most:
        return None, f"no interval: only {len(first)} of {most} documents are in every layer's sample"
    note = "" if len(first) == most else f"interval over the {len(first)} of {most} documents that are in every layer's sample"
    return np.stack([level.moved for level in levels if level.moved is not None], axis=-1), note


def profile(
    *,
    of: Callable[[Floats], Floats],
    range: tuple[float, float],
    title: str,
    contrasts: Callable[[Floats], Floats],
    least: bool = False,
    on_request: bool = False,
) -> Callable[[Callable[[Floats], Floats]], Profile]:
    """Declare the function below, of numbers by block (last axis), as the profile of its own name.

    Args:
        of: what each block's number is, a function of its centred covariance's eigenvalues (last axis, falling).
        range: the smallest and the largest value it can take.
        title: what a figure calls it.
        contrasts: the differences between blocks, linear, of which it is the least, or the greatest in size.
        least: whether it is the least of them.
        on_request: whether it is computed only where it is named.
    """
    return lambda function: Profile(function, of=of, range=range, title=title, contrasts=contrasts, least=least, on_request=on_request)
