"""Profiles: a number of a whole stack, made of one number per block. A profile is the extreme of some contrasts between blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.number import THIS_N, Number
from isoscope.core.numerics import Floats, margin
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.inference import band_factor
from isoscope.estimation.metric import AnyCloud, Declaration, Question, Subject, decorator_for
from isoscope.statistics.jackknife_groups import effective_groups

FEWEST_BLOCKS = 6
"""In a stack of fewer blocks, the first sixth or the middle third holds no block."""
SHARED_DOCUMENTS = 0.9
"""An interval needs at least this fraction of each layer's documents in the samples of all layers."""


def middle_minus_ends(shares: Floats) -> Floats:
    """The mean over the middle third of blocks (last axis) minus the mean over the first sixth, and minus that over the last: (…, 2).

    Block l of L stands at the relative depth (l − ½)/L, so that a stack read backwards gives the same two contrasts.
    """
    blocks = shares.shape[-1]
    depth = (np.arange(blocks) + 0.5) / blocks
    middle = (depth >= 1 / 3) & (depth <= 2 / 3)
    ends = [shares[..., end].mean(-1) for end in (depth <= 1 / 6, depth >= 5 / 6)]
    return np.asarray(shares[..., middle].mean(-1)[..., None] - np.stack(ends, axis=-1))


def bell_height(shares: Floats) -> Floats:
    """The mean over the middle third of blocks (last axis) minus the larger of the means over the first and the last sixth.

    >>> float(bell_height(np.array([0.1, 0.2, 0.6, 0.8, 0.2, 0.3])).round(3))
    0.4
    >>> float(bell_height(np.arange(12.0)))
    -5.0
    """
    return np.asarray(middle_minus_ends(shares).min(-1))


def pairwise_differences(shares: Floats) -> Floats:
    """The difference between any two blocks (last axis), the later block minus the earlier one: (…, L(L − 1)/2).

    >>> pairwise_differences(np.array([0.0, 1.0, 3.0])).tolist()
    [1.0, 3.0, 2.0]
    """
    first, second = np.triu_indices(shares.shape[-1], 1)
    return np.asarray(shares[..., second] - shares[..., first])


def shared_documents(units: Iterable[np.ndarray]) -> np.ndarray:
    """The documents that every sample has, in increasing order, from the document of each of its points.

    Every layer samples the same tokens; but a token is a sink in one layer and not in another, so that without sinks a
    document may be left with no point in some layer.
    """
    return reduce(np.intersect1d, units)


@dataclass(frozen=True)
class LayerEstimate:
    """The number of one layer, and how far each bootstrap draw of documents shifts it."""

    value: float
    shifts: Floats | None  # (draws,)
    documents: np.ndarray  # the documents that were drawn from, in increasing order
    sampled_documents: int  # the number of documents in the layer's own sample
    effective_documents: float  # the number of documents that were drawn from, long ones counted by their weight
    n: int
    d: int


class Profile(Declaration):
    """A number of a whole stack. Call it with {layer: cloud} of its hidden states; layer 0, which enters the first block, is left out.

    The decorated function takes one number per block (last axis) and returns contrasts between blocks (last axis), linear in the numbers.
    The profile is the smallest contrast, or the one that is largest in size.

    Its interval is a bootstrap over documents with the *same* draws in every layer, so that what moves all layers together moves no
    difference between them. The draws give the standard error of each contrast; `contrast_interval` makes the interval of the extreme.

    Args:
        layer_value: the number of a block, as a function of the eigenvalues of its centred covariance (last axis, falling).
        extreme: which contrast the profile is: the `smallest`, or the one that is `largest` in size.
        range: the smallest and the largest value that it can take.
        title: what a figure calls it.
        on_request: whether it is computed only if it is named.
    """

    interval_about = THIS_N
    """It is made of a spectrum, whose shares have a bias at finite n."""

    def __init__(
        self,
        function: Callable[[Floats], Floats],
        *,
        layer_value: Callable[[Floats], Floats],
        extreme: Literal["smallest", "largest"],
        range: tuple[float, float],
        title: str,
        on_request: bool = False,
    ) -> None:
        super().__init__(function, title=title, question=Question.LAYERS, reads=("second",), wants=("sample",), on_request=on_request)
        self.range, self.extreme, self.contrasts, self._layer_value = range, extreme, function, layer_value

    @property
    def subject(self) -> Subject:
        """`stack`: it needs the clouds of all blocks."""
        return "stack"

    def available(self, cloud: AnyCloud) -> bool:
        """Whether a layer's cloud is one of points, and has every part that this profile reads."""
        return isinstance(cloud, Cloud) and super().available(cloud)

    def __call__(self, clouds: Mapping[int, Cloud]) -> Number:
        """Return the number of a stack, from the clouds of its hidden states by layer, all under one token policy."""
        if not isinstance(clouds, Mapping):
            raise IsoscopeError(f"{self.name} is a number of a whole stack, and it was given one cloud; give it {{layer: cloud}}.")
        able = {layer: cloud for layer, cloud in clouds.items() if layer > 0 and self.available(cloud)}
        with_sample = [cloud for cloud in able.values() if cloud.has("sample")]
        documents = shared_documents(cloud.require_sample().unit for cloud in with_sample) if with_sample else None
        estimates = {layer: self.estimate_layer(cloud, documents) for layer, cloud in able.items()}
        return self.combine_layers(estimates, max(clouds, default=0))

    def estimate_layer(self, cloud: Cloud, documents: np.ndarray | None = None) -> LayerEstimate:
        """Estimate the number of one layer, with draws from these documents, or from all that its sample has."""
        unit = cloud.require_sample().unit if cloud.has("sample") else np.empty(0, np.uint64)
        own = np.unique(unit)
        chosen = own if documents is None else documents
        shifts = cloud.bootstrap_shifts(self._layer_value, documents=None if np.array_equal(own, chosen) else chosen)
        sizes = np.unique(unit[np.isin(unit, chosen)], return_counts=True)[1]
        effective = effective_groups(sizes.astype(np.float64)) if len(sizes) else 0.0
        return LayerEstimate(cloud.spectral_value(self._layer_value), shifts, chosen, len(own), effective, cloud.n, cloud.d)

    def combine_layers(self, estimates: Mapping[int, LayerEstimate], last: int) -> Number:
        """Return the number of a stack whose last block is `last`, from the estimates of its layers."""
        blocks = {layer: estimates[layer] for layer in sorted(estimates) if layer > 0}
        n, d = min((block.n for block in blocks.values()), default=0), max((block.d for block in blocks.values()), default=0)
        if last < FEWEST_BLOCKS:
            return Number(np.nan, n=n, d=d, note=f"needs at least {FEWEST_BLOCKS} blocks, and this stack has {last}")
        missing = [str(layer) for layer in range(1, last + 1) if layer not in blocks or np.isnan(blocks[layer].value)]
        if missing:
            listed = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
            return Number(np.nan, n=n, d=d, note=f"needs the spectrum of every block; of {listed} there is none")
        contrasts = self.contrasts(np.array([block.value for block in blocks.values()]))
        value = float(contrasts.min() if self.extreme == "smallest" else np.abs(contrasts).max())
        shifts, note = _shifts_by_layer(list(blocks.values()))
        if shifts is None:
            return Number(value, n=n, d=d, note=note)
        freedom, documents = min(block.effective_documents for block in blocks.values()) - 1, len(blocks[1].documents)
        # Drawing k documents from k with replacement gives (k − 1)/k of the variance. Contrasts are linear, so they apply to moves as well.
        moves = self.contrasts(independent_moves(shifts) * (documents / (documents - 1)) ** 0.5)
        low, high = contrast_interval(contrasts, moves, freedom, extreme=self.extreme)
        low, high = max(min(low, value), self.range[0]), min(max(high, value), self.range[1])
        return Number(value, n=n, d=d, low=low, high=high, note=note, interval_about=self.interval_about)


profile = decorator_for(Profile)
"""Declare the function below, from numbers by block to contrasts between blocks, as the profile of its own name."""


def independent_moves(shifts: Floats) -> Floats:
    """(k, layers) independent moves of all layers, k at most the number of layers, with the covariance of the shifts (draws, layers)."""
    # RᵀR of a QR decomposition is the covariance of the draws, in at most as many rows as there are layers: `band_factor` weights each row
    # at random, and 200 draws of its own would cost it many times as much.
    known = shifts[np.isfinite(shifts).all(1)]
    return np.asarray(np.linalg.qr(known - known.mean(0), mode="r") / max(len(known) - 1, 1) ** 0.5)


def contrast_interval(contrasts: Floats, moves: Floats, freedom: float, *, extreme: Literal["smallest", "largest"]) -> tuple[float, float]:
    """A 95 % interval of the smallest of several contrasts between blocks, or of the one that is largest in size.

    The smallest contrast is above a threshold if all are, so its lower end is the smallest of their lower ends, which need no widening.
    It is below the threshold if any is, and chance makes the smallest of several too low. So its upper end is the smallest upper end of a
    band that holds all contrasts at once, by max-t over the draws. For the largest contrast the ends swap roles. Each contrast has
    Student's interval with the effective number of documents, since quantiles of draws from few documents are too narrow. An extreme is
    not a smooth function, so its own draws would not show how far it moves.

    Args:
        contrasts: (m,) the contrasts of the whole sample.
        moves: (k, m) independent moves whose squares add up to the variance of each contrast.
        freedom: degrees of freedom of a contrast's standard error.
        extreme: whether the number is the smallest contrast or the largest in size.

    >>> [round(end, 2) for end in contrast_interval(np.array([5.0]), np.array([[0.6], [0.8]]), 1e9, extreme="smallest")]
    [3.04, 6.96]
    """
    if not freedom > 0:
        return np.nan, np.nan
    halves = margin(1.0, freedom) * np.sqrt((moves**2).sum(0))
    simultaneous = band_factor(moves, freedom) * halves
    if extreme == "smallest":
        return float((contrasts - halves).min()), float((contrasts + simultaneous).min())
    sizes = np.abs(contrasts)
    return float((sizes - simultaneous).max()), float((sizes + halves).max())


def _shifts_by_layer(estimates: list[LayerEstimate]) -> tuple[Floats | None, str]:
    """(draws, layers) how far each draw shifts each layer, or None; and a note on what was left out, or why there is none."""
    first = estimates[0].documents
    shifts = [estimate.shifts for estimate in estimates if estimate.shifts is not None]
    if len(shifts) < len(estimates):
        return None, "no interval: it needs a sample with at least three documents in every layer"
    if any(not np.array_equal(estimate.documents, first) for estimate in estimates):
        return None, "no interval: the layers were drawn from different documents"
    most = max(estimate.sampled_documents for estimate in estimates)
    if len(first) < SHARED_DOCUMENTS * most:
        return None, f"no interval: only {len(first)} of {most} documents are in every layer's sample"
    note = "" if len(first) == most else f"interval over the {len(first)} of {most} documents that are in every layer's sample"
    return np.stack(shifts, axis=-1), note
