"""Do drift and cosine go together over a model's layers? The test as published, and one that is valid.

A layer adds little to its input, so two unrelated numbers wander together over a dozen layers. The published p-value treats layers as
independent observations and calls a third of such pairs significant. This file compares the *differences* between neighbouring layers
instead, and the p-value comes from permuting them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from isoscope.core.model_groups import UNIT, UNTRAINED, add_groups, add_places
from isoscope.core.number import SAME_N, THIS_N
from isoscope.core.numerics import LEVEL, margin
from isoscope.estimation.inference import holm

ALL_PAIRS, BETWEEN = "mean_cosine", "between_cosine"
Array = NDArray[np.float64]
OUTCOME, PREDICTORS = "mean_cosine", ("drift_norm", "drift_ratio")
FEWEST_LAYERS = 12
"""Below this no verdict is given."""
FEWEST_MODELS = 3
"""Below this a group has no verdict."""
DRAWS = 9_999
NAN = float("nan")
_TYPES = {"string": ("group", "model", "revision", "policy", "predictor", "verdict", "note"), "Int64": ("step", "seed", "layers", "models")}
_ORDER = (
    "group model revision step seed policy predictor layers models spearman spearman_p pearson pearson_p difference p adjusted_p "
    "low high z tau2 i2 verdict note"
)
COLUMNS = {name: next((kind for kind, names in _TYPES.items() if name in names), "float64") for name in _ORDER.split()}
"""One row per model and predictor, and one per group, which has no `model`. `difference` is Spearman's ρ of the differences (pooled for a
group, with its interval), `p` that of the permutations (for a group: that its mean z is 0), `adjusted_p` Holm's over the models of one
predictor."""


def comparable_over_layers(rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return rows with one cosine per layer, named `mean_cosine`, and for each model whose layers cannot be compared the reason.

    The cosine is over all pairs, as published. If the layers have different n, as in a network that pools, it is the one between
    documents, which does not depend on n; a model without it keeps its rows, and the reason is returned.
    """
    unit = rows.groupby([*UNIT, "policy"], dropna=False, sort=False).ngroup()
    plain, between = rows["metric"].eq(ALL_PAIRS), rows["metric"].eq(BETWEEN)
    # Only a metric whose interval is about its own n is biased by n. Such layers cannot be compared if n differs.
    own = plain & rows["interval_about"].eq(THIS_N) & rows["n"].notna()
    ends = rows[own].groupby(unit[own])["n"].agg(["min", "max"])
    ends = ends[ends["max"] > SAME_N * ends["min"]]
    differs, known = unit.isin(ends.index), unit.isin(set(unit[between]))
    swapped = rows[between & differs].assign(metric=ALL_PAIRS)
    left = {}
    for name, at in zip(rows.loc[plain & differs & ~known, "model"], unit[plain & differs & ~known], strict=True):
        low, high = ends.loc[at]
        left[str(name)] = f"n differs between layers ({low:,} to {high:,}) and {ALL_PAIRS} depends on n; measure {BETWEEN} too"
    return pd.concat([rows[~between & ~(plain & differs & known)], swapped]) if len(swapped) else rows[~between], left


@dataclass(frozen=True)
class Association:
    """How two series over the layers of one model go together; NaN if that is undefined, and `note` says why."""

    layers: int
    spearman: float
    spearman_p: float
    pearson: float
    pearson_p: float
    """As published: over the layers, as if they were independent."""
    differences: int
    difference: float
    p: float
    """Spearman's ρ between the differences of successive layers, and its p by permutation."""
    note: str = ""


@dataclass(frozen=True)
class Pooled:
    """A correlation over several models, each with a true value of its own."""

    models: int
    rho: float
    low: float
    high: float
    z: float
    """The mean of Fisher's z."""
    p: float
    tau2: float
    """Variance of Fisher's z between models, beyond chance."""
    i2: float
    """The share of the spread that is not chance."""


def association(first: ArrayLike, second: ArrayLike, stacks: ArrayLike | None = None, *, seed: int = 0) -> Association:
    """Compare two series over the layers of one model. `stacks` names each layer's stack; no difference is taken across a seam.

    >>> found = association([1, 2, 4, 5, 8], [0.1, 0.3, 0.7, 0.8, 1.9])
    >>> round(found.spearman, 3), round(found.difference, 3), found.differences
    (1.0, 0.949, 4)
    """
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    names = np.zeros(len(x), int) if stacks is None else np.unique(np.asarray(stacks).astype(str), return_inverse=True)[1]
    finite = np.isfinite(x) & np.isfinite(y)
    lost = int((~finite).sum())
    notes = [f"{lost} {'layer' if lost == 1 else 'layers'} without a value left out"] if lost else []
    x, y, names = x[finite], y[finite], names[finite]
    if len(x) < 3:
        return Association(len(x), NAN, NAN, NAN, NAN, 0, NAN, NAN, "; ".join([*notes, "fewer than 3 layers"]))
    notes += ["the values are constant"] if is_constant(x) or is_constant(y) else []
    # Differences are taken within a stack: from an encoder's last layer to a decoder's first no block leads.
    parts = [(np.diff(x[names == name]), np.diff(y[names == name])) for name in np.unique(names)]
    parts = [part for part in parts if len(part[0])]
    dx, dy = (np.concatenate([part[i] for part in parts]) if parts else np.empty(0) for i in (0, 1))
    rho, p = permutation_test(dx, dy, tuple(len(part[0]) for part in parts), seed=seed)
    if math.isnan(rho) and not (is_constant(x) or is_constant(y)):
        notes.append("fewer than 3 differences" if len(dx) < 3 else "the differences are constant")
    return Association(len(x), *as_published(x, y), len(dx), rho, p, "; ".join(notes))


def is_constant(x: Array) -> bool:
    """Return whether all values are equal, so that nothing can be correlated with them."""
    return bool(np.ptp(x) == 0)


def as_published(x: Array, y: Array) -> tuple[float, float, float, float]:
    """Spearman's ρ and Pearson's r with scipy's p-values, which treat the layers as independent."""
    from scipy.stats import pearsonr, spearmanr

    if is_constant(x) or is_constant(y):
        return NAN, NAN, NAN, NAN
    # Centred, because pearsonr warns of nearly constant input by comparing spread and mean; an offset of all layers is no reason to.
    monotone, linear = spearmanr(x, y), pearsonr(x - x.mean(), y - y.mean())
    return float(monotone.statistic), float(monotone.pvalue), float(linear.statistic), float(linear.pvalue)


def permutation_test(x: Array, y: Array, sizes: tuple[int, ...], *, seed: int = 0) -> tuple[float, float]:
    """Return Spearman's ρ and its two-sided p by permuting x within runs of these sizes: all permutations if they are few, else 9,999.

    Permutations stay within a run, because the differences of an encoder and of its decoder need not be alike. The test is two-sided by
    the distance from the mean over permutations, which is 0 for a single run.
    """
    from scipy.stats import rankdata

    if len(x) < 3 or is_constant(x) or is_constant(y):
        return NAN, NAN
    a, b = (ranks / math.sqrt(float(ranks @ ranks)) for ranks in (rankdata(v) - (len(v) + 1) / 2 for v in (x, y)))
    rho = float(a @ b)
    edges = np.cumsum([0, *sizes])
    # Ranks are over all runs and permuted within each, so with several runs the mean over permutations is not 0.
    centre = sum(float(a[i:j].sum() * b[i:j].sum()) / (j - i) for i, j in pairwise(edges))
    orders, exact = list_orders(sizes, seed)
    # The tolerance counts permutations that tie with the observed order in spite of rounding. A drawn set counts the observed order as
    # one of its own, so that p is never 0; a complete set holds it already.
    reached = int((np.abs(a[orders] @ b - centre) >= abs(rho - centre) - 1e-12).sum())
    return min(max(rho, -1.0), 1.0), reached / len(orders) if exact else (reached + 1) / (len(orders) + 1)


@lru_cache(maxsize=32)
def list_orders(sizes: tuple[int, ...], seed: int) -> tuple[NDArray[np.int16], bool]:
    """Return orders that permute within runs of these sizes, one per row, and whether these are all of them."""
    edges = np.cumsum([0, *sizes])
    runs = [np.arange(i, j, dtype=np.int16) for i, j in pairwise(edges)]
    if math.prod(math.factorial(size) for size in sizes) <= DRAWS:
        every = product(*(permutations(run) for run in runs))
        return np.array([[i for run in order for i in run] for order in every], np.int16), True
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permuted(np.tile(run, (DRAWS, 1)), axis=1) for run in runs], axis=1), False


def fisher(rho: float, differences: int) -> tuple[float, float]:
    """Fisher's z of Spearman's ρ and its variance, about 1.06/(n − 3); a perfect ρ counts half a step of the ranks below 1.

    >>> [round(v, 3) for v in fisher(0.5, 12)]
    [0.549, 0.118]
    """
    most = 1 - 6 / (differences**3 - differences)
    return math.atanh(min(max(rho, -most), most)), 1.06 / (differences - 3)


def pool(values: ArrayLike, variances: ArrayLike) -> Pooled:
    """Pool Fisher's z of several models: their mean, with Student's interval over models.

    This is Hartung and Knapp's interval with equal weights. Models that differ are the units, so the interval comes from how much they
    differ, and weights by precision are left out: they let one long model stand for all. It is never narrower than the interval that
    chance within the models gives alone (the fixed effect), so three models that happen to agree prove little.

    >>> one = pool([0.5, 0.5, 0.5], [0.1, 0.1, 0.1])
    >>> round(one.rho, 3), round(one.low, 3), one.tau2, one.i2
    (0.462, 0.141, 0.0, 0.0)
    """
    from scipy.stats import norm, t

    z, variance = np.asarray(values, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    models, spare = len(z), len(z) - 1
    if not models:
        return Pooled(0, NAN, NAN, NAN, NAN, NAN, NAN, NAN)
    mean, chance = float(z.mean()), math.sqrt(variance.sum()) / models
    error = float(z.std(ddof=1)) / math.sqrt(models) if spare else 0.0
    half = max(float(norm.ppf(1 - LEVEL / 2)) * chance, margin(error, spare) if spare else 0.0)
    p = max(2 * norm.sf(abs(mean) / chance), 2 * t.sf(abs(mean) / error, spare) if error else 0.0)
    ends = math.tanh(mean), math.tanh(mean - half), math.tanh(mean + half)
    return Pooled(models, *ends, mean, float(p), *_heterogeneity(z, variance))


def _heterogeneity(z: Array, variance: Array) -> tuple[float, float]:
    """How much models differ beyond chance (DerSimonian and Laird): tau² and I²."""
    weight, spare = 1 / variance, len(z) - 1
    q = float(weight @ (z - weight @ z / weight.sum()) ** 2)
    tau2 = max(0.0, (q - spare) / float(weight.sum() - weight @ weight / weight.sum())) if spare else 0.0
    return tau2, max(0.0, 1 - spare / q) if q > 0 else 0.0


def associations(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per model of the five groups and one per group, with the columns `COLUMNS`.

    The layers are the hidden states of all stacks in one series. A group pools its models of twelve layers or more, each once:
    checkpoints and seeds of one model are averaged, and untrained twins are left out.
    """
    rows = add_groups(table)
    rows = rows[
        rows["kind"].eq("hidden") & rows["layer"].notna() & rows["head"].isna() & rows["metric"].isin([OUTCOME, BETWEEN, *PREDICTORS])
    ]
    made = []
    if len(rows):
        rows = add_places(comparable_over_layers(rows)[0])
        for (policy, _), own in rows.groupby(["policy", "group"], sort=False):
            made += [row | {"policy": policy} for row in group_rows(own)]
    frame = pd.DataFrame(made, columns=list(COLUMNS)).astype(COLUMNS)
    return add_verdicts(frame)


def group_rows(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows of one group under one policy: by predictor its models, then the group as a whole."""
    keys = [*UNIT, "stack", "place"]
    known = rows.drop_duplicates([*keys, "metric"]).set_index(keys)
    series = {str(name): own["value"] for name, own in known.groupby("metric")}
    wide = pd.concat(series, axis=1).reset_index()
    order = {str(model): i for i, model in enumerate(rows["model"].drop_duplicates())}
    wide = wide.assign(order=wide["model"].map(order)).sort_values(["order", *UNIT[1:], "place"], kind="stable")
    group = str(rows["group"].iloc[0])
    for predictor in (name for name in PREDICTORS if {name, OUTCOME} <= set(wide)):
        by_model = []
        for unit, own in wide.groupby(UNIT, sort=False, dropna=False):
            one = association(own[predictor].to_numpy(float), own[OUTCOME].to_numpy(float), own["stack"].to_numpy(str))
            by_model.append((str(unit[0]), one))
            yield dict(zip(UNIT, unit, strict=True)) | vars(one) | {"group": group, "predictor": predictor}
        whole = pool_models(by_model)
        yield vars(whole) | {"group": group, "predictor": predictor, "difference": whole.rho}


def pool_models(by_model: list[tuple[str, Association]]) -> Pooled:
    """The models with enough layers, pooled; those of one name count as one, with the precision of one."""
    usable: dict[str, list[tuple[float, float]]] = {}
    for model, one in by_model:
        if one.layers >= FEWEST_LAYERS and one.differences > 3 and not math.isnan(one.difference) and not model.startswith(UNTRAINED):
            usable.setdefault(model, []).append(fisher(one.difference, one.differences))
    # The variance is averaged, not divided by the number of checkpoints: checkpoints of one model are far from independent.
    means = [np.mean(pairs, axis=0) for pairs in usable.values()]
    return pool([z for z, _ in means], [variance for _, variance in means])


def add_verdicts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with Holm's p over the models of each policy and predictor, and with a verdict each."""
    tried = frame["model"].notna() & (frame["layers"] >= FEWEST_LAYERS).fillna(False)
    for _, rows in frame[tried].groupby(["policy", "predictor"], sort=False):
        frame.loc[rows.index, "adjusted_p"] = holm(rows["p"].to_numpy(float))
    frame["verdict"] = pd.Series([verdict(row) for row in frame.to_dict("records")], index=frame.index, dtype="string")
    return frame


def verdict(row: Mapping[Hashable, Any]) -> str:
    """Whether drift and cosine go together: `holds`, `fails` (they move apart), `undecided`, or the reason for no verdict."""
    whole = pd.isna(row["model"])
    if not whole and row["layers"] < FEWEST_LAYERS:
        return f"no verdict: fewer than {FEWEST_LAYERS} layers"
    if whole and row["models"] < FEWEST_MODELS:
        return f"no verdict: fewer than {FEWEST_MODELS} models of {FEWEST_LAYERS} layers"
    if math.isnan(row["difference"]):
        return f"no verdict: {row['note']}"
    sure = not row["low"] <= 0 <= row["high"] if whole else row["adjusted_p"] < LEVEL
    return ("holds" if row["difference"] > 0 else "fails") if sure else "undecided"
