"""Failures and observations that a report should not bury: one line each, with the threshold and the numbers that crossed it.

A failure means that the model or the measurement is broken: collapsed states, undefined numbers. An observation is neither good nor bad.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pandas as pd

from isoscope.claims.evidence import BELL_HEIGHT, FLAT_RANGE, NO_SERIES, RowsByName, layer_cosines, rows_by_stack, stack_profiles
from isoscope.claims.suite_evidence import final_rows
from isoscope.core.errors import Failures
from isoscope.core.model_groups import list_suites, select_first_seed
from isoscope.core.wording import format_interval, format_number, format_numbered, format_share
from isoscope.estimation.isotropic_quantiles import head_threshold
from isoscope.report.line import greatest, least

COSINE = 0.5
"""The cosine of a layer is high above this."""
ENTROPY = 0.3
"""Attention is sharp if the entropy of a row is below this share of a uniform row's, on average over heads."""
DRIFT = 0.2
"""Queries or keys drift if their mean holds more than this share of the mean squared norm."""
PARALLEL = 0.25
"""At least this share of the heads must drift in parallel."""
RANK, ONE_WAY, ONE_POSITION = 0.25, 0.98, 0.05
"""The limits of effective rank, cosine and entropy beyond which states have collapsed, as in `isoscope.watch`."""


DIAGNOSIS = "the diagnosis"
"""The name under which a failure of this module is noted."""


@dataclass(frozen=True)
class Sign:
    """One failure or observation in one model."""

    model: str
    name: str
    meaning: str
    threshold: str
    evidence: str
    is_failure: bool = False


def diagnosis(table: pd.DataFrame, failures: Failures) -> list[Sign]:
    """Every sign that the tables show, failures first, then model by model; a suite is judged at its last step."""
    signs: list[Sign] = []
    for look in (_high_cosine, _sharp_and_narrow, _parallel, _shape, _undefined, _collapse):
        signs += failures.attempt(DIAGNOSIS, partial(_signs, look, table)) or []
    order = {str(model): i for i, model in enumerate(table["model"].drop_duplicates())}
    return sorted(signs, key=lambda sign: (not sign.is_failure, order.get(sign.model, len(order))))


def _signs(look: Callable[[pd.DataFrame], Iterator[Sign]], table: pd.DataFrame) -> list[Sign]:
    return list(look(table))


def _high_cosine(table: pd.DataFrame) -> Iterator[Sign]:
    for name, rows in layer_cosines(table, NO_SERIES).items():
        # The lower bound must be above the threshold, so that chance alone does not raise an alarm.
        bound = rows["low"].fillna(rows["value"])
        if (bound > COSINE).all():
            ends = " to ".join(f"{format_number(row['value'])} (layer {row['layer']})" for row in (least(rows), greatest(rows)))
            evidence = f"from {ends}, {len(rows)} layers"
            meaning = "In every layer, states of different items have nearly the same direction."
            yield Sign(name, "high cosine in all layers", meaning, f"cosine above {COSINE} in every layer", evidence)


def _sharp_and_narrow(table: pd.DataFrame) -> Iterator[Sign]:
    """Sharp attention over states that all have one direction."""
    for name, rows in _by_layer(final_rows(table, "attention_entropy_normalised")).items():
        model = str(rows["model"].iloc[0])
        states = layer_cosines(table, NO_SERIES).get(model)
        if states is None:
            continue
        # The attention of block L reads the states that leave block L - 1.
        inside = states[states["stack"].eq(rows["stack"].iloc[0])].assign(layer=lambda own: own["layer"] + 1)
        both = rows.merge(inside[["layer", "value"]], on="layer", suffixes=("", "_cosine"))
        both = both[both["value"].lt(ENTROPY) & both["value_cosine"].gt(COSINE)]
        if len(both):
            worst = least(both)
            layers = format_numbered("layer", [int(layer) for layer in both["layer"]])
            evidence = f"{layers}; in layer {worst['layer']} entropy {format_number(worst['value'])} of a uniform row's, cosine "
            evidence += f"{format_number(worst['value_cosine'])}"
            meaning = "Attention is sharp although the states that it reads nearly coincide: it follows their common direction."
            yield Sign(name, "low entropy with high cosine", meaning, f"entropy below {ENTROPY}, cosine above {COSINE}", evidence)


def _parallel(table: pd.DataFrame) -> Iterator[Sign]:
    """Heads whose queries and keys both drift, in parallel beyond chance."""
    drift = {kind: final_rows(table, "drift_ratio", kind=kind) for kind in ("query", "key")}
    for name, rows in final_rows(table, "qk_cosine").items():
        if name not in drift["query"] or name not in drift["key"]:
            continue
        # Among many heads some are parallel by chance; the level grows with their number.
        level = head_threshold(int(rows["d"].min()), len(rows))
        keys = ["seed", "layer", "head"]
        both = rows.merge(drift["query"][name][[*keys, "value"]], on=keys, suffixes=("", "_query"))
        both = both.merge(drift["key"][name][[*keys, "value"]], on=keys, suffixes=("", "_key"))
        parallel = both[both["value"].abs().gt(level) & both["value_query"].gt(DRIFT) & both["value_key"].gt(DRIFT)]
        if len(both) and len(parallel) >= PARALLEL * len(both):
            top = greatest(parallel.assign(size=parallel["value"].abs()), "size")
            most = f"head {top['head']} of layer {top['layer']}, cos(Q̄, K̄) = {format_number(top['value'])}"
            evidence = f"{len(parallel)} of {len(both)} heads; most in {most}"
            meaning = "Queries and keys drift in parallel: a large part of every score is the same for all pairs."
            both_drift = f"both drift ratios above {DRIFT}"
            threshold = f"|cos(Q̄, K̄)| above {format_number(level)} (chance) and {both_drift}, in {format_share(PARALLEL)} of heads"
            yield Sign(name, "queries and keys drift in parallel", meaning, threshold, evidence)


def _shape(table: pd.DataFrame) -> Iterator[Sign]:
    """A decoder without the bell that is expected of decoders, or with a flat profile."""
    for name, rows in stack_profiles(table, ("share_range",), "decoder").items():
        for row in rows[rows["policy"].eq("all") & rows["high"].lt(FLAT_RANGE)].to_dict("records"):
            evidence = (
                f"largest minus smallest share {format_number(row['value'])}, 95 % interval {format_interval(row['low'], row['high'])}"
            )
            meaning = "No block of this decoder has a more dominant direction than the others."
            yield Sign(name, "flat share over a decoder", meaning, f"range below {FLAT_RANGE}", evidence)
    for name, rows in stack_profiles(table, ("bell",), "decoder").items():
        for row in rows[rows["policy"].eq("all") & rows["high"].lt(BELL_HEIGHT)].to_dict("records"):
            evidence = f"B = {format_number(row['value'])}, 95 % interval {format_interval(row['low'], row['high'])}"
            meaning = "A bell is expected, but the middle blocks of this decoder have no higher top share than its first or last."
            yield Sign(name, "no bell in a decoder", meaning, f"B below {BELL_HEIGHT}", evidence)


def _collapse(table: pd.DataFrame) -> Iterator[Sign]:
    """Layers of a suite that lost rank by its last step, or whose states or attention coincide there."""
    wanted = {"effective_rank": "hidden", "mean_cosine": "hidden", "attention_entropy_normalised": "attention"}
    own = table[table["metric"].isin(list(wanted)) & table["policy"].eq("all") & table["value"].notna() & table["layer"].notna()]
    own = own[own["kind"].eq(own["metric"].map(wanted))]
    own = select_first_seed(own[own["model"].isin(list_suites(own))])
    for name, rows in rows_by_stack(own).items():
        for metric, numbers in rows.groupby("metric", sort=False):
            yield from _collapse_signs(name, str(metric), numbers.pivot_table(index="step", columns="layer", values="value"))


def _collapse_signs(name: str, metric: str, steps: pd.DataFrame) -> Iterator[Sign]:
    """The sign of one number, by step and layer, at the last step."""
    values, layers, numbers = steps.to_numpy(float), list(steps.columns), list(steps.index)
    last, at = values[-1], f"at step {numbers[-1]}"
    # Compared with the maximum over steps, not with the first step: the rank may rise before it falls.
    remaining = last / values.max(axis=0)
    if metric == "effective_rank" and remaining.min() < RANK:
        i = int(remaining.argmin())
        highest = f"{format_number(values[:, i].max())} at step {numbers[int(values[:, i].argmax())]}"
        evidence = f"layer {layers[i]}: {format_number(last[i])} {at}, {highest}"
        yield _failure(
            name, "rank collapses over steps", "The states collapse onto few directions.", f"below {RANK} of its maximum", evidence
        )
    if metric == "mean_cosine" and last.max() > ONE_WAY:
        i = int(last.argmax())
        evidence = f"layer {layers[i]}: {format_number(last[i])} {at}, {format_number(values[0, i])} at the first step"
        yield _failure(name, "cosine collapses over steps", "All states end with nearly the same direction.", f"above {ONE_WAY}", evidence)
    if metric == "attention_entropy_normalised" and last.min() < ONE_POSITION:
        i = int(last.argmin())
        evidence = f"layer {layers[i]}: {format_number(last[i])} {at}, {format_number(values[0, i])} at the first step"
        meaning = "Nearly all attention falls on single positions."
        yield _failure(name, "entropy collapses over steps", meaning, f"below {ONE_POSITION}", evidence)


_failure = partial(Sign, is_failure=True)


def _undefined(table: pd.DataFrame) -> Iterator[Sign]:
    """Layers whose cosine is NaN: no two vectors have a direction."""
    own = table[table["metric"].eq("mean_cosine") & table["kind"].isin(["hidden", "final"]) & table["layer"].notna()]
    own = own[own["policy"].eq("all") & own["value"].isna()]
    for name, rows in own.groupby("model", sort=False):
        evidence = format_numbered("layer", sorted({int(layer) for layer in rows["layer"]}))
        yield _failure(
            str(name), "no direction is defined", "No two vectors have a direction: they are zero, or too few.", "cosine is NaN", evidence
        )


def _by_layer(units: RowsByName) -> RowsByName:
    """The mean over heads and seeds, per layer."""
    means = {name: rows.groupby(["model", "stack", "layer"])["value"].mean() for name, rows in units.items()}
    return {name: pd.DataFrame(mean).reset_index() for name, mean in means.items()}
