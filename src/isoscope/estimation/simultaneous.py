"""How much wider the intervals of several layers must be to hold all at once, given that the same documents move them together."""

from __future__ import annotations

import numpy as np

from isoscope.core.numerics import LEVEL, Floats, upper_quantile, widening

DRAWS = 9_999
ROWS = 1_000
"""Draws that are looked at together."""


def band_factor(moves: Floats, freedom: float) -> float:
    """The factor that turns 95 % intervals of each layer into a band that holds all layers in 95 %: the max-t bootstrap over groups.

    Each draw gives every group of documents a random weight, the same in all layers, and finds the layer that moves farthest in its own
    standard errors. Layers that move together need little more than one layer; independent ones need what Bonferroni asks.

    Args:
        moves: (groups, layers) how far a layer's number moves when a group of documents is left out.
        freedom: degrees of freedom of Student's interval of each layer.

    >>> together = np.tile(np.random.default_rng(0).normal(size=(64, 1)), 13)
    >>> round(band_factor(together, 63), 2), round(band_factor(np.random.default_rng(0).normal(size=(64, 13)), 63), 2)
    (1.0, 1.48)
    """
    lengths = np.sqrt((moves**2).sum(0))
    units = moves[:, lengths > 0] / lengths[lengths > 0]
    if units.shape[1] < 2:
        return 1.0
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((DRAWS, len(units)))
    # In parts: all pairs of the blocks of a large model are a thousand columns.
    farthest = np.concatenate([np.abs(weights[at : at + ROWS] @ units).max(1) for at in range(0, DRAWS, ROWS)])
    if np.isfinite(freedom):
        farthest /= np.sqrt(rng.chisquare(freedom, DRAWS) / freedom)
    factor = float(np.quantile(farthest, 1 - LEVEL)) / upper_quantile(LEVEL / 2, freedom)
    return min(max(factor, 1.0), widening(units.shape[1], freedom))
