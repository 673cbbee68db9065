"""Signs of failure that a report should not bury: one line each, with the threshold that it passed and the numbers that passed it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pandas as pd

from isoscope.core.failures import Failures
from isoscope.core.group import first_seed, suites
from isoscope.report.chance import runs
from isoscope.report.line import greatest, least, show, span
from isoscope.statistics.chance import head_threshold
from isoscope.statistics.evidence import NO_SERIES, RowsByName, layer_cosines, rows_by_stack
from isoscope.statistics.shape_evidence import BELL_HEIGHT, FLAT_RANGE, stack_profiles
from isoscope.statistics.suite_evidence import final_rows

COSINE = 0.5
"""A layer's cosine is high above this."""
ENTROPY = 0.3
"""Attention is sharp where the entropy of a row is below this part of an even row's, on average over heads."""
DRIFT = 0.2
"""Queries or keys drift where their mean holds more than this part of the mean squared norm."""
PARALLEL = 0.25
"""So large a part of the heads must drift in parallel."""
RANK, ONE_WAY, ONE_POSITION = 0.25, 0.98, 0.05
"""Collapse, by the limits that `isoscope.watch` begins with: effective rank, cosine, entropy."""


DIAGNOSIS = "the diagnosis"
"""What a failure in it is noted under."""


@dataclass(frozen=True)
class Sign:
    """One sign of failure in one model."""

    model: str
    name: str
    said: str
    threshold: str
    evidence: str


def diagnosis(table: pd.DataFrame, failures: Failures) -> list[Sign]:
    """Every sign that the tables show, model by model; of a suite at its last step, with what it was before."""
    found: list[Sign] = []
    for look in (_high_cosine, _sharp_and_narrow, _parallel, _shape, _collapse):
        found += failures.attempt(DIAGNOSIS, partial(_signs, look, table)) or []
    order = {str(model): i for i, model in enumerate(table["model"].drop_duplicates())}
    return sorted(found, key=lambda sign: order.get(sign.model, len(order)))


def _signs(look: Callable[[pd.DataFrame], Iterator[Sign]], table: pd.DataFrame) -> list[Sign]:
    return list(look(table))


def _high_cosine(table: pd.DataFrame) -> Iterator[Sign]:
    for name, rows in layer_cosines(table, NO_SERIES).items():
        bound = rows["low"].fillna(rows["value"])
        if (bound > COSINE).all():
            low, high = least(rows), greatest(rows)
            evidence = (
                f"from {show(low['value'])} (layer {low['layer']}) to {show(high['value'])} (layer {high['layer']}), {len(rows)} layers"
            )
            said = "Every layer points one way: two states of different items have nearly the same direction wherever they are taken."
            yield Sign(name, "high cosine in all layers", said, f"cosine above {COSINE} in every layer", evidence)


def _sharp_and_narrow(table: pd.DataFrame) -> Iterator[Sign]:
    """Sharp attention over states that all point one way: attention L reads what leaves block L − 1."""
    for name, rows in _by_layer(final_rows(table, "attention_entropy_normalised")).items():
        model = str(rows["model"].iloc[0])
        states = layer_cosines(table, NO_SERIES).get(model)
        if states is None:
            continue
        inside = states[states["stack"].eq(rows["stack"].iloc[0])].assign(layer=lambda own: own["layer"] + 1)
        both = rows.merge(inside[["layer", "value"]], on="layer", suffixes=("", "_cosine"))
        both = both[both["value"].lt(ENTROPY) & both["value_cosine"].gt(COSINE)]
        if len(both):
            worst = least(both)
            evidence = f"{_layers(both)}; in layer {worst['layer']} entropy {show(worst['value'])} of an even row's, cosine "
            evidence += f"{show(worst['value_cosine'])}"
            said = "Attention is sharp although what it reads points one way: it follows a common direction, not what tells states apart."
            yield Sign(name, "low entropy with high cosine", said, f"entropy below {ENTROPY}, cosine above {COSINE}", evidence)


def _parallel(table: pd.DataFrame) -> Iterator[Sign]:
    """Heads whose queries and keys both drift, along one line beyond chance."""
    drift = {kind: final_rows(table, "drift_ratio", kind=kind) for kind in ("query", "key")}
    for name, rows in final_rows(table, "qk_cosine").items():
        if name not in drift["query"] or name not in drift["key"]:
            continue
        level = head_threshold(int(rows["d"].min()), len(rows))
        keys = ["seed", "layer", "head"]
        both = rows.merge(drift["query"][name][[*keys, "value"]], on=keys, suffixes=("", "_query"))
        both = both.merge(drift["key"][name][[*keys, "value"]], on=keys, suffixes=("", "_key"))
        found = both[both["value"].abs().gt(level) & both["value_query"].gt(DRIFT) & both["value_key"].gt(DRIFT)]
        if len(both) and len(found) >= PARALLEL * len(both):
            top = found.iloc[int(found["value"].abs().to_numpy(float).argmax())]
            evidence = (
                f"{len(found)} of {len(both)} heads; most in head {top['head']} of layer {top['layer']}, cos(Q̄, K̄) = {show(top['value'])}"
            )
            said = "Queries and keys drift along one line: much of every score is the same for all pairs."
            threshold = f"|cos(Q̄, K̄)| above {show(level)} (chance) and both drift ratios above {DRIFT}, in {PARALLEL:.0%} of heads"
            yield Sign(name, "queries and keys drift in parallel", said, threshold, evidence)


def _shape(table: pd.DataFrame) -> Iterator[Sign]:
    """A decoder without the bell that decoders are said to have, or with a flat profile."""
    for name, rows in stack_profiles(table, ("share_range",), "decoder").items():
        for row in rows[rows["policy"].eq("all") & rows["high"].lt(FLAT_RANGE)].to_dict("records"):
            evidence = f"largest less smallest share {show(row['value'])}, 95 % interval {span(row['low'], row['high'])}"
            yield Sign(
                name,
                "flat share over a decoder",
                "No block of this decoder has a direction of its own.",
                f"range below {FLAT_RANGE}",
                evidence,
            )
    for name, rows in stack_profiles(table, ("bell",), "decoder").items():
        for row in rows[rows["policy"].eq("all") & rows["high"].lt(BELL_HEIGHT)].to_dict("records"):
            evidence = f"B = {show(row['value'])}, 95 % interval {span(row['low'], row['high'])}"
            said = "The middle blocks of this decoder have no higher top share than its first or last, where a bell is expected."
            yield Sign(name, "no bell in a decoder", said, f"B below {BELL_HEIGHT}", evidence)


def _collapse(table: pd.DataFrame) -> Iterator[Sign]:
    """What a suite's last step lost of what it had, and layers that point one way or look at one position."""
    wanted = {"effective_rank": "hidden", "mean_cosine": "hidden", "attention_entropy_normalised": "attention"}
    own = table[table["metric"].isin(list(wanted)) & table["policy"].eq("all") & table["value"].notna() & table["layer"].notna()]
    own = own[own["kind"].eq(own["metric"].map(wanted))]
    own = first_seed(own[own["model"].isin(suites(own))])
    for name, rows in rows_by_stack(own).items():
        for metric, numbers in rows.groupby("metric", sort=False):
            yield from _collapsed(name, str(metric), numbers.pivot_table(index="step", columns="layer", values="value"))


def _collapsed(name: str, metric: str, steps: pd.DataFrame) -> Iterator[Sign]:
    """The sign that one number, by step and layer, shows at the last step."""
    values, layers, numbers = steps.to_numpy(float), list(steps.columns), list(steps.index)
    last, at = values[-1], f"at step {numbers[-1]}"
    part = last / values.max(axis=0)
    if metric == "effective_rank" and part.min() < RANK:
        i = int(part.argmin())
        evidence = f"layer {layers[i]}: {show(last[i])} {at}, {show(values[:, i].max())} at step {numbers[int(values[:, i].argmax())]}"
        yield Sign(name, "rank collapses over steps", "States fall onto few directions.", f"below {RANK} of its highest", evidence)
    if metric == "mean_cosine" and last.max() > ONE_WAY:
        i = int(last.argmax())
        evidence = f"layer {layers[i]}: {show(last[i])} {at}, {show(values[0, i])} at first"
        yield Sign(name, "cosine collapses over steps", "States come to point one way.", f"above {ONE_WAY}", evidence)
    if metric == "attention_entropy_normalised" and last.min() < ONE_POSITION:
        i = int(last.argmin())
        evidence = f"layer {layers[i]}: {show(last[i])} {at}, {show(values[0, i])} at first"
        yield Sign(
            name, "entropy collapses over steps", "Nearly all attention lies on single positions.", f"below {ONE_POSITION}", evidence
        )


def _by_layer(found: RowsByName) -> RowsByName:
    """The mean over heads and seeds of each layer."""
    means = {name: rows.groupby(["model", "stack", "layer"])["value"].mean() for name, rows in found.items()}
    return {name: pd.DataFrame(mean).reset_index() for name, mean in means.items()}


def _layers(rows: pd.DataFrame) -> str:
    numbers = [int(layer) for layer in rows["layer"]]
    return f"{'layer' if len(numbers) == 1 else 'layers'} {', '.join(runs(numbers))}"
