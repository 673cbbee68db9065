"""Whether two groups of models differ, by every way of dealing them into two groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np

from isoscope.core.errors import IsoscopeError

MODELS = 3
"""With fewer models in a group nothing is decided: of three and three the smallest p is 0.1."""
MOST = 2_000_000
"""So many relabellings are counted out, not more."""


def exact_permutation(values: Sequence[float], is_decoder: Sequence[bool]) -> float:
    """p of the difference between the means of two groups of models, two-sided, over all ways to label so many of them decoders.

    The part of all C(n, k) relabellings whose difference of means is at least as large, in size, as the one that was found. Models are
    the units: it asks whether the labels matter, and takes no model's layers or documents for more evidence. NaN with fewer than three
    models in a group, where nothing can be decided.

    >>> exact_permutation([0.5, 0.6, 0.7, 0.1, 0.2, 0.0], [True, True, True, False, False, False])
    0.1
    """
    numbers, labels = np.asarray(values, dtype=np.float64), np.asarray(is_decoder, dtype=bool)
    if numbers.ndim != 1 or numbers.shape != labels.shape:
        raise IsoscopeError(f"A permutation test takes one label a value; got {numbers.shape} values and {labels.shape} labels.")
    if not np.isfinite(numbers).all():
        raise IsoscopeError("A permutation test takes numbers only, and one of these is not defined; leave that model out.")
    n, k = len(numbers), int(labels.sum())
    if min(k, n - k) < MODELS:
        return float("nan")
    if comb(n, k) > MOST:
        raise IsoscopeError(f"{n} models have {comb(n, k):,} relabellings, more than can be counted out; compare fewer.")
    # The difference of means rises with the sum over the chosen, so that the sum's distance from its mean says the same.
    chosen = np.array(list(combinations(range(n), k)))
    far = np.abs(numbers[chosen].sum(1) - k * numbers.mean())
    found = abs(float(numbers[labels].sum() - k * numbers.mean()))
    return float(np.mean(far >= found - 1e-12 * max(found, float(np.abs(numbers).max()))))
