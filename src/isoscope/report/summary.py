"""One model in plain sentences. Each function answers one question, or returns None if the table cannot."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from isoscope.charts.panels import list_policies
from isoscope.core.model_groups import UNTRAINED
from isoscope.core.study import studies
from isoscope.core.wording import format_list, format_number, format_share, format_sites, short_site_name
from isoscope.estimation.isotropic_quantiles import one_pair
from isoscope.report.head_sentences import alignment, first_token_effect, sharpness, sinks
from isoscope.report.line import Line, greatest, interval_of, least, site_of
from isoscope.report.shape import bell_without_sinks, encoders_and_decoders, intrinsic_dimension, share_profile

COSINE = {"between_cosine": "mean cosine of pairs from different items", "mean_cosine": "mean cosine over all pairs"}
FIXED = (0.1, 0.2)
"""Thresholds that do not depend on the dimension; 0.2 is the one of "Anisotropy Is Inherent to Self-Attention"."""


def summarise(line: Line, others: list[Line]) -> dict[str, str]:
    """One sentence per question that the table can answer, by topic, in the order in which a reader asks."""
    answers = {
        "Anisotropy": anisotropic_layers(line),
        "Chance": peak_above_chance(line),
        "Drift": drift(line),
        "Carriers": carriers(line),
        "Dimensions in use": dimensions_in_use(line),
        "Dominant direction": dominant_direction(line),
        "Shape over the blocks": share_profile(line),
        "Shape without sinks": bell_without_sinks(line),
        "Encoders and decoders": encoders_and_decoders(line, others),
        "Intrinsic dimension": intrinsic_dimension(line),
        "Special and first tokens": token_effect(line),
        "Attention": sharpness(line),
        "Sinks": sinks(line),
        "First token": first_token_effect(line),
        "Queries and keys": alignment(line),
        "Embedding tables": embedding_tables(line),
        "Training": against_untrained(line, others),
    }
    answers |= {topic: tell(line) for study in studies for topic, tell in study.sentences.items()}
    return {topic: answer for topic, answer in answers.items() if answer}


@dataclass(frozen=True)
class LayersAbove:
    """The layers whose cosine exceeds each threshold, by lower bounds if there are intervals."""

    layers: tuple[str, ...]
    above: dict[float, tuple[str, ...]]
    """Per threshold, the short names of the sites above it, by depth. The first threshold is that of one isotropic pair."""

    has_intervals: bool

    @property
    def agree(self) -> bool:
        """Whether every threshold gives the same layers."""
        return len(set(self.above.values())) == 1


def layers_above(rows: pd.DataFrame) -> LayersAbove:
    """Compare the rows of one metric, line and policy with the thresholds; an undefined value exceeds none of them."""
    bound = rows["low"].where(rows["low"].notna(), rows["value"])
    # A missing lower bound falls back to the value: cosines over all pairs have no interval.
    names = [short_site_name(kind, layer) for kind, layer in zip(rows["kind"], rows["layer"], strict=True)]
    # The sites of a line may differ in d; the largest has the lowest threshold.
    thresholds = (one_pair(int(rows["d"].max())), *FIXED)
    above = {t: tuple(name for name, low in zip(names, bound, strict=True) if low > t) for t in thresholds}
    return LayersAbove(tuple(names), above, bool(rows["low"].notna().all()))


def anisotropic_layers(line: Line) -> str | None:
    """The layers that exceed each of three thresholds, which need not agree."""
    rows = line.rows(line.cosine)
    if rows.empty:
        return None
    found = layers_above(rows)
    cosine = f"{'lower bound of the ' if found.has_intervals else ''}{COSINE[line.cosine]}"
    (pair, above_pair), *fixed = found.above.items()
    if found.agree and not above_pair:
        return f"No layer is anisotropic: the {cosine} exceeds neither {format_number(pair)}, 0.1 nor 0.2 anywhere."
    if found.agree:
        layers = "Every layer" if above_pair == found.layers else format_sites(above_pair).capitalize()
        verb = "is" if layers == "Every layer" or len(above_pair) == 1 else "are"
        return f"{layers} {verb} anisotropic whichever threshold is used ({format_number(pair)}, 0.1 or 0.2 for the {cosine})."
    parts = [f"{format_number(pair)} (95th percentile of one isotropic pair) in {format_sites(above_pair)}"]
    parts += [f"{threshold} in {format_sites(names)}" for threshold, names in fixed]
    return f"Which layers are anisotropic depends on the threshold: the {cosine} exceeds {'; '.join(parts)}."


def peak_above_chance(line: Line) -> str | None:
    """The greatest cosine compared with two nulls that are often mistaken for each other: that of an average and that of one pair."""
    peak = line.peak()
    if peak is None:
        return None
    d, value = int(peak["d"]), float(peak["value"])
    pair = one_pair(d)
    spread = "" if pd.isna(peak["null_sd"]) else f" ± {format_number(2 * float(peak['null_sd']))}"
    average = (
        ""
        if pd.isna(peak["null"])
        else f"by chance such an average would be {format_number(float(peak['null']))}{spread} (the null of the average), and "
    )
    times = f"; the peak is {format_number(value / pair)} times as high" if value > pair else "; the peak is not higher"
    return (
        f"The {COSINE[line.cosine]} peaks at {format_number(value)}{interval_of(peak)} in {site_of(peak)}; {average}"
        f"one pair of isotropic vectors in {d} dimensions stays below {format_number(pair)} in 95 % of cases "
        f"(the null of one pair, far more lenient){times}."
    )


def drift(line: Line) -> str | None:
    """The part of the peak that is drift, and the cosine that centring leaves."""
    peak = line.peak()
    ratio = None if peak is None else line.at("drift_ratio", peak)
    if peak is None or ratio is None:
        return None
    left = line.at("centred_cosine", peak)
    part = float(ratio["value"])
    text = f"In {site_of(peak)} the mean vector holds {format_share(part)} of the mean squared norm (drift ratio {format_number(part)})"
    if left is None:
        return text + "."
    rest, value = float(left["value"]), float(peak["value"])
    # Centring can overshoot to a small negative cosine, which is as good as none; hence the absolute values only in the first case.
    amount = (
        "hardly any of the cosine"
        if abs(rest) < 0.05 * abs(value)
        else "a part of the cosine"
        if rest < 0.5 * value
        else "most of the cosine"
    )
    return f"{text}; centring leaves {amount} ({format_number(rest)})."


def carriers(line: Line) -> str | None:
    """The dimensions that carry the cosine at its peak."""
    peak = line.peak()
    if peak is None:
        return None
    points = line.series
    points = points[
        points["name"].eq("dimension_share") & points["kind"].eq(peak["kind"]) & points["policy"].eq(line.policy) & points["y"].notna()
    ]
    if not pd.isna(peak["layer"]):
        points = points[points["layer"].eq(peak["layer"]).fillna(False).astype(bool)]
    three = points.sort_values("y", ascending=False).head(3)
    if len(three) == 3:
        first, total = float(three["y"].iloc[0]), float(three["y"].sum())
        dims = format_list([str(int(x)) for x in three["x"]])
        kind = "a few dimensions make the cosine" if total > 0.5 else "many dimensions share the cosine"
        return (
            f"In {site_of(peak)} dimension {int(three['x'].iloc[0])} alone carries {format_share(first)} of the mean cosine, and "
            f"dimensions {dims} together carry {format_share(total)}: {kind}."
        )
    top = line.at("top_dimension_share", peak)
    return (
        None if top is None else f"In {site_of(peak)} one dimension alone carries {format_share(float(top['value']))} of the mean cosine."
    )


def dimensions_in_use(line: Line) -> str | None:
    """The range of effective rank and participation ratio over the layers, as shares of d."""
    parts = []
    for metric, name in (("effective_rank", "effective rank"), ("participation_ratio", "participation ratio")):
        rows = line.rows(metric)
        if rows.empty:
            continue
        low, high = least(rows), greatest(rows)
        if len(rows) == 1:
            text = f"the {name} is {format_number(low['value'])} ({format_share(low['value'] / low['d'])} of d)"
        else:
            text = f"the {name} runs from {format_number(low['value'])} in {site_of(low)} ({format_share(low['value'] / low['d'])} of d) "
            text += f"to {format_number(high['value'])} in {site_of(high)} ({format_share(high['value'] / high['d'])})"
        parts.append(text + ("" if pd.isna(low["null"]) else f"; an isotropic sample of this size would give {format_number(low['null'])}"))
    if not parts:
        return None
    return f"Of d = {int(line.table['d'].max())} dimensions, {'; '.join(parts)}."


def dominant_direction(line: Line) -> str | None:
    """The largest top share, compared with Marchenko–Pastur and with the share that heavy norms alone would give."""
    rows = line.rows("top_share")
    if rows.empty:
        return None
    # The null of top share depends on n and d, so it is cited for the site that is named, not for the model.
    row = greatest(rows)
    value = float(row["value"])
    text = f"One direction carries at most {format_share(value)} of the centred variance (in {site_of(row)})"
    text += "" if pd.isna(row["null"]) else f"; an isotropic Gaussian would give {format_share(float(row['null']))} (Marchenko–Pastur)"
    norms = line.at("top_share_norm_null", row)
    if norms is None:
        return text + "."
    part = float(norms["value"]) / value
    verdict = "are enough for it" if part > 0.8 else "account for a good part of it" if part > 0.3 else "do not account for it"
    return f"{text}, uniform directions with the observed norms {format_share(float(norms['value']))}: heavy norms alone {verdict}."


def token_effect(line: Line) -> str | None:
    """The change without special and first tokens, at the layer where it is largest."""
    known = list_policies(line.table)
    if not {"all", "body"} <= set(known):
        return None
    order = [name for name in ("all", "no-special", "body") if name in known]
    parts = []
    for metric, name in ((line.cosine, COSINE[line.cosine]), ("top_share", "top share")):
        both = line.with_and_without_first_tokens(metric)
        if both.empty or ((both["n"] == both["n_body"]) & (both["value"] == both["value_body"])).all():  # images have neither kind of token
            continue
        row = greatest(both, "change")
        values = [(policy, line.at(metric, row, policy)) for policy in order]
        path = ", ".join(f"{format_number(float(at['value']))} ({policy})" for policy, at in values if at is not None)
        where = f"changes most in {site_of(row)}: {path}"
        parts.append(f"the {name} {where if row['change'] >= 0.02 else f'hardly changes (most in {site_of(row)}: {path})'}")
    return f"Without special and first tokens {'; '.join(parts)}." if parts else None


def embedding_tables(line: Line) -> str | None:
    """The cosine of the embedding tables, which do not depend on any text."""
    rows = line.table[line.table["metric"].eq("mean_cosine") & line.table["layer"].isna() & line.table["value"].notna()]
    rows = rows[rows["kind"].isin(["input_embedding", "output_embedding"])].drop_duplicates("kind")
    if rows.empty:
        return None
    parts = [f"{format_number(value)} in the {kind.replace('_', ' ')}" for kind, value in zip(rows["kind"], rows["value"], strict=True)]
    return f"The mean cosine of the embedding tables is {format_list(parts)}."


def against_untrained(line: Line, others: list[Line]) -> str | None:
    """The effect of training, if the table has an untrained twin of the same model and stack."""
    if line.table.empty:
        return None
    model, stack = str(line.table["model"].iloc[0]), line.table["stack"].iloc[0]
    twins = [o for o in others if o.table["model"].iloc[0] == UNTRAINED + model and (pd.isna(stack) or o.table["stack"].iloc[0] == stack)]
    own = line.rows(line.cosine)
    rows = [own.merge(twin.rows(line.cosine, line.policy), on=["kind", "layer"], suffixes=("", "_twin")) for twin in twins]
    rows = [frame for frame in rows if len(frame)]
    if not rows:
        return None
    both = pd.concat(rows, ignore_index=True)
    both["gap"] = both["value"] - both["value_twin"]
    # With several untrained seeds, a site counts as above or below only if its interval is clear of every one of them.
    both["above"] = both["low"].fillna(both["value"]) > both["high_twin"].fillna(both["value_twin"])
    both["below"] = both["high"].fillna(both["value"]) < both["low_twin"].fillna(both["value_twin"])
    sites = both.groupby(["kind", "layer"], sort=False, dropna=False, as_index=False).agg(
        {"value": "first", "value_twin": "mean", "gap": "mean", "above": "all", "below": "all"}
    )
    row = greatest(sites.assign(size=sites["gap"].abs()), "size")
    seeds = "" if len(rows) == 1 else f" (mean of {len(rows)} seeds)"
    trained, untrained = (format_number(float(row[name])) for name in ("value", "value_twin"))
    return (
        f"Compared with its untrained twin{seeds} the {COSINE[line.cosine]} differs most in {site_of(row)}: {trained} trained, {untrained} "
        f"untrained; the trained model lies clearly above it in {int(sites['above'].sum())} and clearly below it in "
        f"{int(sites['below'].sum())} of {len(sites)} sites."
    )
