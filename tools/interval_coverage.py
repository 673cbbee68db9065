"""Simulate how often the 95 % interval of each metric holds what it is about, and print the rates.

python tools/interval_coverage.py             200 corpora in 128 and in 768 dimensions: a quarter of an hour
python tools/interval_coverage.py --draws 40  fewer
python tools/interval_coverage.py --metric participation_ratio_corrected  one metric alone: three minutes

A corpus has documents of unequal length. The tokens of a document share a part of their own, so that they are not independent. Variances
fall as 1/√rank around a drift. `population` is how often the interval holds the population's value, which is computed from the population's
covariance or from a corpus a hundred times as large; `this n` is how often it holds the mean of the metric over all corpora of this size.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from isoscope.estimation.cloud import Cloud
from isoscope.estimation.metric import AnyCloud, Metric
from isoscope.estimation.site_clouds import AttentionCloud
from isoscope.metrics import metrics
from isoscope.statistics.jackknife_groups import GROUPS
from isoscope.statistics.kernel import block_sums
from isoscope.statistics.sample import mix, point_hashes
from isoscope.statistics.site_statistics import SiteStatistics
from isoscope.testing import attention_cloud

LONGEST, SHARED = 24, 0.5
SIZES = {128: 160, 768: 400}
"""Documents by dimension: n is at least three times d."""
SPECTRAL: dict[str, Callable[[np.ndarray, float], float]] = {
    "top_share": lambda v, drift: v[0] / v.sum(),
    "top_share_linear": lambda v, drift: float(v[0] ** 0.5 / (v**0.5).sum()),
    "effective_rank": lambda v, drift: math.exp(_entropy(v**0.5)),
    "participation_ratio": lambda v, drift: v.sum() ** 2 / (v**2).sum(),
    "participation_ratio_corrected": lambda v, drift: v.sum() ** 2 / (v**2).sum(),
    "isoscore": lambda v, drift: (v.sum() ** 2 / (v**2).sum() - 1) / (len(v) - 1),
    "matrix_entropy": lambda v, drift: _entropy(v),
    "drift_norm": lambda v, drift: drift,
    "drift_ratio": lambda v, drift: drift**2 / (drift**2 + v.sum()),
}
"""The population's value from the eigenvalues of its covariance and the length of its mean."""
OF_THE_SAMPLE = ("sample", "neighbours")
"""A metric of a sample of points has no value of the population: it depends on how many points are kept."""


def _entropy(weights: np.ndarray) -> float:
    p = weights / weights.sum()
    return float(-(p * np.log(p)).sum())


@dataclass(frozen=True)
class Population:
    """Points drift + √λ·(shared·document + rest·token), with documents of unequal length."""

    d: int
    documents: int
    drift: float = 2.0

    @property
    def variances(self) -> np.ndarray:
        """(d,) the eigenvalues of the covariance."""
        return 1.0 / np.arange(1, self.d + 1) ** 0.5

    def lengths(self, documents: int) -> np.ndarray:
        """Documents of 1 to 24 tokens, mostly short: the same in every corpus, so that n is."""
        return 1 + np.minimum(np.random.default_rng(0).geometric(0.15, documents), LONGEST - 1)

    def draw(self, rng: np.random.Generator, documents: int) -> tuple[np.ndarray, np.ndarray]:
        """Documents (g, t, d), and which of their positions there are."""
        own = SHARED * rng.standard_normal((documents, 1, self.d))
        x = own + (1 - SHARED**2) ** 0.5 * rng.standard_normal((documents, LONGEST, self.d))
        x *= np.sqrt(self.variances)
        x[..., -1] += self.drift  # along the smallest variance, so that no other number hides it
        return x, np.arange(LONGEST) < self.lengths(documents)[:, None]

    def cloud(self, rng: np.random.Generator, times: int = 1, *, sample: bool = True) -> Cloud:
        """A corpus of `times` as many documents, as a pass over it makes it."""
        statistics = SiteStatistics(self.d, ["body"], second=sample, sample=4096 if sample else 0)
        for part in range(times):
            x, mask = self.draw(rng, self.documents)
            unit = mix(np.arange(part * self.documents, (part + 1) * self.documents).astype(np.uint64))
            sums = block_sums(x, mask)
            statistics.moments[0].add(sums, x[mask] if sample else None)
            assert statistics.groups is not None
            statistics.groups.update((unit % np.uint64(GROUPS)).astype(np.int64), [sums], unit=unit.view(np.int64))
            if statistics.sample is not None:
                owner, index = np.repeat(unit, LONGEST), np.tile(np.arange(LONGEST), self.documents)
                slices = np.where(mask.ravel(), 0, -1).astype(np.int16)
                statistics.sample.update(x.reshape(-1, self.d), point_hashes(0, owner, index), owner, index, slices)
        found = Cloud.of(statistics, "all")
        assert found is not None
        return found

    def values(self, chosen: list[Metric]) -> dict[str, float]:
        """The population's value by metric; NaN where it has none."""
        known = {name: float(value(self.variances, self.drift)) for name, value in SPECTRAL.items()}
        large = self.cloud(np.random.default_rng(1), 100, sample=False)
        for metric in chosen:
            if metric.name not in known:
                able = metric.available(large) and not set(metric.reads) & set(OF_THE_SAMPLE)
                known[metric.name] = float(metric(large)) if able else math.nan
        return known


@dataclass(frozen=True)
class Attending:
    """Queries and keys of one head in sequences that share a part of their own."""

    d: int = 32
    documents: int = 120
    t: int = 12

    def cloud(self, rng: np.random.Generator, times: int = 1, *, sample: bool = True) -> AttentionCloud:
        """The causal attention of `times` as many sequences, each an item."""
        b = times * self.documents
        sides = []
        for sign in (1, -1):
            own = SHARED * rng.standard_normal((b, 1, self.d))
            sides.append(own + (1 - SHARED**2) ** 0.5 * rng.standard_normal((b, self.t, self.d)) + 0.3 * sign * (np.arange(self.d) < 8))
        found = attention_cloud(sides[0], sides[1])
        pair = []
        for x in sides:
            statistics, sums = SiteStatistics(self.d, ["body"], sample=0), block_sums(x)
            statistics.moments[0].add(sums, x.reshape(-1, self.d))
            assert statistics.groups is not None
            statistics.groups.update(np.arange(b) % GROUPS, [sums], unit=np.arange(b))
            pair.append(Cloud.of(statistics, "all"))
        assert pair[0] is not None
        assert pair[1] is not None
        found.pair = pair[0], pair[1]
        return found

    def values(self, chosen: list[Metric]) -> dict[str, float]:
        """The population's value by metric."""
        large = self.cloud(np.random.default_rng(1), 100)
        return {metric.name: float(metric(large)) for metric in chosen}


@dataclass(frozen=True)
class Coverage:
    """How often an interval held the population's value, and the metric's mean at this n; and the bias in standard deviations."""

    metric: Metric
    population: float
    this_n: float
    bias: float

    @property
    def declared(self) -> float:
        """The rate of what the metric says its interval is about."""
        return self.population if self.metric.interval_about == "population" else self.this_n


def coverages(model: Population | Attending, chosen: list[Metric], draws: int) -> Iterator[Coverage]:
    """The coverage of each metric that has an interval."""
    rng, found = np.random.default_rng(2), {metric.name: [] for metric in chosen}  # type: dict[str, list[tuple[float, float, float]]]
    for _ in range(draws):
        cloud: AnyCloud = model.cloud(rng)
        for metric in chosen:
            number = metric(cloud)
            found[metric.name].append((float(number), number.low, number.high))
    population = model.values(chosen)
    for metric in chosen:
        value, low, high = np.array(found[metric.name]).T
        if np.isnan(low).all():
            continue
        truth, mean = population[metric.name], value.mean()
        held = math.nan if math.isnan(truth) else float(((low <= truth) & (truth <= high)).mean())
        bias = (mean - truth) / value.std() if value.std() > 0 else math.nan
        yield Coverage(metric, held, float(((low <= mean) & (mean <= high)).mean()), bias)


def tried_metrics(about: str) -> list[Metric]:
    """The metrics of points, or of attention, that have an interval and do not take seconds."""
    return [metric for metric in metrics(about) if metric.interval_about and not metric.on_request]


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--metric", action="append", help="only these metrics")
    options = parser.parse_args()
    draws = options.draws
    tried: list[tuple[str, Population | Attending, str]] = [
        (f"d = {d}, {documents} documents", Population(d, documents), "points") for d, documents in SIZES.items()
    ]
    tried.append(("One head, d = 32, 120 sequences", Attending(), "attention"))
    for title, model, about in tried:
        chosen = [metric for metric in tried_metrics(about) if metric.name in (options.metric or [metric.name])]
        if not chosen:
            continue
        print(f"\n{title}, n = {model.cloud(np.random.default_rng(2)).n:,}, {draws} corpora\n")
        print("| metric | is about | population | this n | bias / sd |\n|---|---|---|---|---|")
        for one in coverages(model, chosen, draws):
            rates = " | ".join("–" if math.isnan(rate) else f"{100 * rate:.1f} %" for rate in (one.population, one.this_n))
            bias = "–" if math.isnan(one.bias) else f"{one.bias:+.1f}"
            print(f"| `{one.metric.name}` | {one.metric.interval_about} | {rates} | {bias} |", flush=True)


if __name__ == "__main__":
    main()
