"""A cloud as each source would have measured it: each layer of a run, or a matrix. Nothing here needs torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from isoscope.charts.records import select_layers
from isoscope.core.errors import IsoscopeError
from isoscope.core.model_groups import block_layers
from isoscope.core.number import Number
from isoscope.core.numerics import Floats
from isoscope.core.site import Site
from isoscope.core.table import SITE_COLUMNS, TABLE_COLUMNS, concat_tables, make_table
from isoscope.estimation.cloud import PARTS, Cloud
from isoscope.metrics import registry
from isoscope.runs.matrix_geometry import read_matrix
from isoscope.runs.results import Results
from isoscope.statistics.sample import Sample
from isoscope.statistics.site_statistics import SiteStatistics
from isoscope.studies.definitions.conventions import CONVENTIONS, Convention, Reading, find_convention
from isoscope.trust.safe_io import parse_object

WORDS = PAIRS = 1000
"""Of Ethayarajh's code: sentences with one word each, and pairs of these words."""
REPEATS = 200
"""How often his drawing is repeated, to see how far chance moves it."""
BATCH = 4096
UNIT = [name for name in SITE_COLUMNS if name not in ("kind", "layer", "head", "policy")]
"""The columns that identify a stack."""


def draw_words(sample: Sample, rng: np.random.Generator) -> np.ndarray:
    """The places in a sample of one word of each of 1,000 documents (or of all), documents and words drawn uniformly."""
    _, owner = np.unique(sample.unit, return_inverse=True)
    order, counts = np.argsort(owner, kind="stable"), np.bincount(owner)
    # In this order the points of a document lie together, so one uniform number per document picks one of them.
    picked = np.cumsum(counts) - counts + (rng.random(len(counts)) * counts).astype(np.int64)
    return np.asarray(order[rng.permutation(picked)[:WORDS]])


def draw_cosines(cloud: Cloud, repeats: int = REPEATS, seed: int = 0) -> Floats:
    """(repeats,) the mean cosine of 1,000 pairs of `draw_words`, drawn with replacement: a word may meet itself."""
    sample, rng = cloud.require_sample(), np.random.default_rng(seed)
    points = sample.points.astype(np.float64)
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    # A zero vector has no direction: its cosines are NaN, which the mean leaves out.
    u = np.divide(points, norms, out=np.full_like(points, np.nan), where=norms > 0)
    cosines = []
    for _ in range(repeats):
        chosen = draw_words(sample, rng)
        i, j = rng.choice(chosen, (2, PAIRS))
        cosines.append(np.nanmean(np.einsum("pd,pd->p", u[i], u[j])))
    return np.array(cosines)


def _cosine_of_words(cloud: Cloud) -> Number:
    """The first drawing, and the ends between which 95 of 100 drawings lie: this is not an interval over documents."""
    values = draw_cosines(cloud)
    low, high = np.quantile(values, [0.025, 0.975])
    count = min(len(np.unique(cloud.require_sample().unit)), WORDS)
    note = f"{PAIRS:,} pairs of {count:,} words; the interval is where 95 of 100 such drawings lie"
    return Number(float(values[0]), n=count, d=cloud.d, low=low, high=high, null=0.0, null_sd=(cloud.d * PAIRS) ** -0.5, note=note)


def _share_of_words(cloud: Cloud) -> Number:
    """The variance of 1,000 words along the first singular vector of their uncentred matrix, over their whole variance."""
    chosen = draw_words(cloud.require_sample(), np.random.default_rng(0))
    points = cloud.require_sample().points[chosen].astype(np.float64)
    variance = float(points.var(0).sum())
    if len(points) < 2 or not variance > 0:
        return Number(np.nan, n=len(points), d=cloud.d, note="the words drawn are all equal")
    first = np.linalg.svd(points, full_matrices=False)[2][0]
    return Number(min(float((points @ first).var()) / variance, 1.0), n=len(points), d=cloud.d, note=f"of {len(points):,} words")


def _share_of_batches(cloud: Cloud) -> Number:
    """σ₁²/Σσ² of centred batches of 4,096 points of the sample, averaged; a smaller sample is one batch."""
    points = cloud.require_sample().points.astype(np.float64)
    count, size = max(len(points) // BATCH, 1), min(len(points), BATCH)
    shares = []
    for i in range(count):
        batch = points[i * size : (i + 1) * size]
        batch = batch - batch.mean(0)
        # Both products have the same nonzero eigenvalues; the smaller one is decomposed.
        small = batch @ batch.T if len(batch) < cloud.d else batch.T @ batch
        squares = np.linalg.eigvalsh(small)
        shares.append(squares[-1] / squares.sum() if squares[-1] > 0 else np.nan)
    note = f"{count} batches of {size:,}, standard deviation {np.std(shares, ddof=1):.3g}" if count > 1 else f"one batch of {size:,}"
    return Number(float(np.mean(shares)), n=count * size, d=cloud.d, note=note)


def _plain_drift(cloud: Cloud) -> Number:
    """‖x̄‖ with pairs within an item, which makes it a little longer than `drift_norm`."""
    return Number(float(np.linalg.norm(cloud.moments.mean)), n=cloud.n, d=cloud.d).scaled_by(cloud.unit)


OWN: dict[tuple[str, str], Callable[[Cloud], Number]] = {
    ("ethayarajh2019", "cosine"): _cosine_of_words,
    ("ethayarajh2019", "share"): _share_of_words,
    ("godey2024", "drift"): _plain_drift,
    ("razzhigaev2024", "share"): _share_of_batches,
}
"""The numbers that are not metrics: a function for each convention and question."""


@dataclass(frozen=True)
class Answer:
    """One number under one convention."""

    convention: Convention
    reading: Reading
    number: Number

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        where = {"question": self.reading.question, "convention": self.convention.name, "policy": self.convention.policy}
        return where | {"metric": _metric_name(self.convention, self.reading), "how": self.reading.how} | self.number.as_dict()


def _metric_name(convention: Convention, reading: Reading) -> str:
    """The value of the column `metric`: never that of a registered metric, for the points and the last layer may differ."""
    return f"{reading.metric or reading.question}@{convention.name}"


def _conventions(names: list[str] | None) -> list[Convention]:
    return list(CONVENTIONS.values()) if names is None else [find_convention(name) for name in names]


def answers(cloud: Cloud, names: list[str] | None = None) -> list[Answer]:
    """A cloud under every convention, or under the named ones. Its points count as those that the convention's policy leaves."""
    asked = [(convention, reading) for convention in _conventions(names) for reading in convention.readings]
    return [Answer(convention, reading, _measure_reading(convention, reading, cloud)) for convention, reading in asked]


def _measure_reading(convention: Convention, reading: Reading, cloud: Cloud) -> Number:
    if reading.metric:
        entry: Any = registry[reading.metric]
        return entry(cloud) if entry.available(cloud) else Number(np.nan, n=cloud.n, d=cloud.d, note="not enough was kept for it")
    return OWN[convention.name, reading.question](cloud)


def of_matrix(
    matrix: Any, names: list[str] | None = None, *, key: str | None = None, sample: int = 4096, seed: int = 0, allow_wide: bool = False
) -> list[Answer]:
    """A matrix (n, d), in memory or in a file, under every convention: each row is a document of one word."""
    if not sample:
        raise IsoscopeError("Conventions that draw points need a sample of them; give --sample 4096.")
    parts = [part for part in PARTS if part != "cosine"]
    return answers(read_matrix(matrix, reads=parts, allow_wide=allow_wide, sample=sample, seed=seed, key=key), names)


def conventions_rows(results: Results, names: list[str] | None = None) -> pd.DataFrame:
    """The layers of a run under every convention, or those that are named, as a table of its columns.

    `metric` is `METRIC@CONVENTION`; if a convention takes the state after the final norm as the last layer, `kind` is `final`.
    """
    rows = concat_tables([read(results, each) for each in _conventions(names) for read in (_from_table, _from_clouds)], TABLE_COLUMNS)
    if rows.empty:
        raise IsoscopeError(f"{results.path} has no layers to measure by a convention; it takes runs of `isoscope measure` or `sweep`.")
    return rows


def _from_table(results: Results, convention: Convention) -> pd.DataFrame:
    """The readings that are metrics."""
    renamed = {reading.metric: _metric_name(convention, reading) for reading in convention.readings if reading.metric}
    table = results.table(list(renamed), "every") if renamed else make_table([], TABLE_COLUMNS)
    table = select_layers(table[table["policy"] == convention.policy])
    table = _last_layers(table, final=convention.final)
    return table.assign(metric=table["metric"].map(renamed), spec=[_add_convention(text, convention) for text in table["spec"]])


def _last_layers(table: pd.DataFrame, *, final: bool) -> pd.DataFrame:
    """Drop the states after a final norm or, with `final`, the layers that these states replace."""
    if not final:
        return table[table["kind"] == "hidden"]
    keys = pd.MultiIndex.from_frame(table.assign(layer=block_layers(table))[[*UNIT, "layer"]].astype("string").fillna(""))
    normed = keys[(table["kind"] == "final").to_numpy()]
    return table[(table["kind"] == "final") | ~keys.isin(normed)]


def _add_convention(text: Any, convention: Convention) -> str:
    return json.dumps(parse_object(text) | {"convention": convention.name}, sort_keys=True, ensure_ascii=False)


def _from_clouds(results: Results, convention: Convention) -> pd.DataFrame:
    """The readings that are not metrics, from the sums and samples that the run kept."""
    own = [reading for reading in convention.readings if not reading.metric]
    rows: list[dict[str, Any]] = []
    for manifest in results.manifests() if own else []:
        if "experiment" in manifest["identity"]:  # cells of experiments hold no clouds
            continue
        columns, spec = manifest["columns"], manifest["spec"]
        what, option = ("points", "all") if any(reading.draws for reading in own) else ("sums", "sums")
        if manifest["keep"] not in ("all", option):
            raise IsoscopeError(
                f"{convention.name} needs {what}, and the run kept none of {columns['model']}; measure it again with --store {option}."
            )
        sites = results.statistics(columns["model"], columns.get("step"), columns.get("seed"))
        for site, statistics in sites.items():
            if not isinstance(statistics, SiteStatistics) or not _is_layer(site, sites, final=convention.final):
                continue
            cloud = Cloud.of(statistics, convention.policy)
            if cloud is None:
                continue
            where = columns | {"stack": site.stack, "kind": site.kind, "layer": site.layer, "policy": convention.policy}
            for reading in [reading for reading in own if not reading.draws or cloud.has("sample")]:
                number = _measure_reading(convention, reading, cloud)
                own_spec = spec | {"policy": convention.policy, "convention": convention.name, "note": number.note}
                own_spec.pop("activation_nulls", None)
                named = {"metric": _metric_name(convention, reading), "spec": json.dumps(own_spec, sort_keys=True)}
                rows.append(where | named | number.as_dict())
    return make_table(rows, TABLE_COLUMNS)


def _is_layer(site: Site, sites: Collection[Site], *, final: bool) -> bool:
    """Whether a site is one of a convention's layers."""
    if site.kind == "final":
        return final
    return site.kind == "hidden" and not (final and Site(site.stack, "final", (site.layer or 0) + 1) in sites)
