"""Local isotropy: Gaussian clouds, whose neighbourhoods are those of a Gaussian, from documents whose points share a part."""

from __future__ import annotations

from functools import partial

import numpy as np

from isoscope.claims.deciding import single_outcome
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.inference import Estimate, least_of
from isoscope.metrics import local_isoscore_excess, local_share_excess
from isoscope.statistics.kernel import block_sums
from isoscope.statistics.sample import Sample, item_hash, point_hashes
from isoscope.statistics.site_statistics import Moments
from tests.claims.error_rates import Null
from tests.claims.made_rows import KINDS, Row
from tests.claims.nulls.suites import THREE, is_decided

UNITS = np.array([item_hash(str(i)) for i in range(600)], dtype=np.uint64)
METRICS = (local_share_excess, local_isoscore_excess)


def cloud(x: np.ndarray, owner: np.ndarray) -> Cloud:
    """What local geometry reads of one layer."""
    sample = Sample(x.shape[1], len(x))
    units, index = UNITS[owner], np.arange(len(x)) - np.searchsorted(owner, owner)
    sample.update(x.astype(np.float32), point_hashes(0, units, index), units, index, np.zeros(len(x), dtype=np.int16))
    moments = Moments(x.shape[1])
    moments.add(block_sums(x[None]), x)
    return Cloud(moments, None, sample)


def model_rows(rng: np.random.Generator, model: str, documents: int, tokens: int, shared: float, d: int, blocks: int) -> list[Row]:
    """Local excess of every layer; layers go together, and one direction dominates."""
    owner = np.repeat(np.arange(documents), tokens)

    def fresh() -> np.ndarray:
        return np.asarray(
            np.sqrt(shared) * rng.standard_normal((documents, d))[owner] + np.sqrt(1 - shared) * rng.standard_normal((len(owner), d))
        )

    x, rows = fresh(), []
    for layer in range(1, blocks + 1):
        x = 0.8 * x + 0.6 * fresh()
        seen = cloud(x * np.where(np.arange(d) == 0, 4.0, 1.0), owner)
        where: Row = KINDS["token"] | {"model": model, "revision": "r", "kind": "hidden", "policy": "all", "layer": layer}
        rows += [where | {"metric": metric.name} | metric(seen).as_dict() for metric in METRICS]
    return rows


def claim_speaks(rng: np.random.Generator, **world: float) -> bool:
    """Whether the claim is decided on three models."""
    return is_decided("locally_isotropic", [(model_rows(rng, model, **world), []) for model in THREE])  # type: ignore[arg-type]


def layer_speaks(rng: np.random.Generator, **world: float) -> bool:
    """Whether the neighbourhoods of one layer are told from a Gaussian's by the claim's rule: the weaker of both measures."""
    share, score = model_rows(rng, "a", blocks=1, **world)  # type: ignore[arg-type]
    parts = [Estimate(-share["value"], -share["high"], -share["low"]), Estimate(score["value"], score["low"], score["high"])]  # type: ignore
    return single_outcome(least_of(parts), 0.0) != "undecided"


NULLS = [
    *(
        Null(
            "local isotropy of one layer",
            f"Gaussian, {documents} documents of {tokens} points, a part {shared:g} of their variance shared",
            partial(layer_speaks, documents=documents, tokens=tokens, shared=shared, d=8),
            100,
        )
        for documents, tokens, shared in ((600, 1, 0.0), (60, 8, 0.3), (60, 16, 0.5), (60, 16, 0.8))
    ),
    Null(
        "`locally_isotropic`",
        "3 models of 3 layers, Gaussian, 60 documents of 8 points that share a part 0.8",
        partial(claim_speaks, documents=60, tokens=8, shared=0.8, d=8, blocks=3),
        40,
    ),
]
