"""Intrinsic dimension as "The Shape of Learning" reports it: the mean over batches."""

from __future__ import annotations

import math

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.dimension import FEWEST, RAZZHIGAEV, Rows, interval, isotropic_level, refusal, rows, shared_error
from isoscope.statistics.metric import metric
from isoscope.statistics.neighbours import neighbours
from isoscope.statistics.resampled_neighbours import mean_length

BATCH = 4096


@metric(
    reads=("neighbours",),
    range=(0.0, np.inf),
    interval_about=THIS_N,
    title="Intrinsic dimension (batches of 4,096)",
    at_least=3,
    on_request=True,
)
def two_nn_batches(cloud: Cloud) -> Number:
    """The intrinsic dimension as "The Shape of Learning" reports it: `two_nn_razzhigaev` of shuffled batches of 4,096 points, averaged.

    The sample is in random order and is cut into whole batches; of a smaller one the only batch is what there is. The note says how many
    there are and their standard deviation, which the paper draws as its band. The interval is not that band: it is for the mean, and
    knows that tokens of one item are in several batches.

    Range 0 to ∞; null: its mean over isotropic Gaussian clouds of the batch's n and d.

    Razzhigaev et al. (2024).
    """
    sample = cloud.drawn
    m = len(sample)
    count, size = max(m // BATCH, 1), min(m, BATCH)
    parts, distinct, repeated = [], m, 0
    try:
        for i in range(count):
            points, unit = sample.points[i * size : (i + 1) * size], sample.unit[i * size : (i + 1) * size]
            found = cloud.neighbours(2) if size == m else neighbours(points, 2)
            parts.append(rows(found, RAZZHIGAEV, unit, mean_length(points)))
            distinct, repeated = min(distinct, len(found.kept)), repeated + found.duplicates
    except IsoscopeError as error:
        return Number(math.nan, n=m, d=cloud.d, note=str(error))
    fits = [RAZZHIGAEV.fit(part.distances) for part in parts]
    values = np.array([fit.value for fit in fits])
    if distinct < FEWEST or not np.isfinite(values).all():
        return Number(math.nan, n=m, d=cloud.d, note=refusal(distinct))
    influence = np.concatenate([fit.influence for fit in fits])
    low, high = interval(float(values.mean()), *shared_error(influence, _stacked(parts, size)))
    null, null_sd = isotropic_level(RAZZHIGAEV, distinct, cloud.d)
    note = f"{count} batches of {size:,}, standard deviation {values.std(ddof=1):.3g}" if count > 1 else f"one batch of {size:,}"
    note = "; ".join(filter(None, (note, cloud.duplicates_note(repeated, "kept"))))
    return Number(float(values.mean()), n=count * size, d=cloud.d, low=low, high=high, null=null, null_sd=null_sd / count**0.5, note=note)


def _stacked(parts: list[Rows], size: int) -> Rows:
    """The rows of all batches; no point of one is a point of another."""
    points = [part.points + i * size for i, part in enumerate(parts)]
    return Rows(*(np.concatenate(columns) for columns in ([part.distances for part in parts], points, [part.unit for part in parts])))
