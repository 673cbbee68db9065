"""What a table says about one model, in plain sentences. Each function is pure and answers one question, or None."""

from __future__ import annotations

import pandas as pd

from isoscope.core.group import UNTRAINED
from isoscope.core.study import studies
from isoscope.drawing.policies import list_policies
from isoscope.report.chance import listed, spoken, verdict
from isoscope.report.heads import alignment, sharpness, sinks
from isoscope.report.line import Line, bounds, greatest, least, place, share, show
from isoscope.report.shape import encoders_and_decoders, intrinsic, shape
from isoscope.statistics.chance import one_pair

COSINE = {"between_cosine": "mean cosine of pairs from different items", "mean_cosine": "mean cosine over all pairs"}


def summary(line: Line, others: list[Line]) -> dict[str, str]:
    """Every sentence that the table can support, by topic, in the order in which a reader asks."""
    answers = {
        "Anisotropy": anisotropic_layers(line),
        "Chance": above_chance(line),
        "Drift": drift(line),
        "Carriers": carriers(line),
        "Dimensions in use": dimensions_in_use(line),
        "Dominant direction": dominant_direction(line),
        "Shape over the blocks": shape(line),
        "Encoders and decoders": encoders_and_decoders(line, others),
        "Intrinsic dimension": intrinsic(line),
        "Special and first tokens": token_effect(line),
        "Attention": sharpness(line),
        "Sinks": sinks(line),
        "Queries and keys": alignment(line),
        "Embedding tables": static_tables(line),
        "Training": against_untrained(line, others),
    }
    answers |= {topic: tell(line) for study in studies for topic, tell in study.sentences.items()}
    return {topic: answer for topic, answer in answers.items() if answer}


def anisotropic_layers(line: Line) -> str | None:
    """Which layers surely exceed each of three thresholds; that it depends on the threshold where they disagree."""
    rows = line.rows(line.cosine)
    if rows.empty:
        return None
    found = verdict(rows)
    bound = "lower bound of the " if found.with_interval else ""
    (pair, of_pair), *fixed = found.above.items()
    if found.agreed and not of_pair:
        return f"No layer is anisotropic: the {bound}{COSINE[line.cosine]} exceeds neither {show(pair)}, 0.1 nor 0.2 anywhere."
    if found.agreed:
        everywhere = "Every layer" if of_pair == found.layers else spoken(of_pair).capitalize()
        verb = "is" if everywhere == "Every layer" or len(of_pair) == 1 else "are"
        return (
            f"{everywhere} {verb} anisotropic whichever threshold is taken ({show(pair)}, 0.1 or 0.2 for the {bound}{COSINE[line.cosine]})."
        )
    parts = [f"{show(pair)} (95th percentile of one isotropic pair) in {spoken(of_pair)}"]
    parts += [f"{t} in {spoken(names)}" for t, names in fixed]
    return f"Which layers are anisotropic depends on the threshold: the {bound}{COSINE[line.cosine]} exceeds {'; '.join(parts)}."


def above_chance(line: Line) -> str | None:
    """The peak beside the null of an average and beside that of one pair."""
    peak = line.peak()
    if peak is None:
        return None
    d, value = int(peak["d"]), float(peak["value"])
    pair = one_pair(d)
    spread = "" if pd.isna(peak["null_sd"]) else f" give or take {show(2 * float(peak['null_sd']))}"
    average = (
        ""
        if pd.isna(peak["null"])
        else f"By chance such an average would be {show(float(peak['null']))}{spread} (the null of the average). "
    )
    times = f", {show(value / pair)} times less than the peak" if value > pair else ", which the peak does not reach"
    return (
        f"The {COSINE[line.cosine]} peaks at {show(value)}{bounds(peak)} in {place(peak)}. {average}"
        f"One pair of isotropic vectors in {d} dimensions stays below {show(pair)} in 95 % of cases "
        f"(the null of one pair, far more lenient){times}."
    )


def drift(line: Line) -> str | None:
    """How much of the peak is drift, and what centring leaves."""
    peak = line.peak()
    ratio = None if peak is None else line.at("drift_ratio", peak)
    if peak is None or ratio is None:
        return None
    left = line.at("centred_cosine", peak)
    part = float(ratio["value"])
    text = f"In {place(peak)} the mean vector holds {share(part)} of the mean squared norm (drift ratio {show(part)})"
    if left is None:
        return text + "."
    rest, value = float(left["value"]), float(peak["value"])
    judged = (
        "hardly any of the cosine"
        if abs(rest) < 0.05 * abs(value)
        else "a part of the cosine"
        if rest < 0.5 * value
        else "most of the cosine"
    )
    return f"{text}; centring leaves {judged} ({show(rest)})."


def carriers(line: Line) -> str | None:
    """The dimensions that carry the cosine where it peaks."""
    peak = line.peak()
    if peak is None:
        return None
    named = line.series
    named = named[
        named["name"].eq("dimension_share") & named["kind"].eq(peak["kind"]) & named["policy"].eq(line.policy) & named["y"].notna()
    ]
    if not pd.isna(peak["layer"]):
        named = named[named["layer"].eq(peak["layer"]).fillna(False).astype(bool)]
    three = named.sort_values("y", ascending=False).head(3)
    if len(three) == 3:
        first, total = float(three["y"].iloc[0]), float(three["y"].sum())
        dims = listed([str(int(x)) for x in three["x"]])
        kind = "a few dimensions make the cosine" if total > 0.5 else "many dimensions share the cosine"
        return (
            f"In {place(peak)} dimension {int(three['x'].iloc[0])} alone carries {share(first)} of the mean cosine and dimensions {dims} "
            f"together {share(total)}: {kind}."
        )
    top = line.at("top_dimension_share", peak)
    return None if top is None else f"In {place(peak)} one dimension alone carries {share(float(top['value']))} of the mean cosine."


def dimensions_in_use(line: Line) -> str | None:
    """The range of effective rank and participation ratio over the layers, as parts of d."""
    parts = []
    for metric, name in (("effective_rank", "effective rank"), ("participation_ratio", "participation ratio")):
        rows = line.rows(metric)
        if rows.empty:
            continue
        low, high = least(rows), greatest(rows)
        if len(rows) == 1:
            text = f"the {name} is {show(low['value'])} ({share(low['value'] / low['d'])} of d)"
        else:
            text = f"the {name} runs from {show(low['value'])} in {place(low)} ({share(low['value'] / low['d'])} of d) "
            text += f"to {show(high['value'])} in {place(high)} ({share(high['value'] / high['d'])})"
        parts.append(text + ("" if pd.isna(low["null"]) else f"; an isotropic sample of this size would give {show(low['null'])}"))
    if not parts:
        return None
    return f"Of d = {int(line.table['d'].max())} dimensions, {'. '.join([parts[0], *[part[0].upper() + part[1:] for part in parts[1:]]])}."


def dominant_direction(line: Line) -> str | None:
    """The largest top share, beside Marchenko–Pastur and beside what heavy norms alone would give."""
    rows = line.rows("top_share")
    if rows.empty:
        return None
    row = greatest(rows)
    value = float(row["value"])
    text = f"One direction carries at most {share(value)} of the centred variance (in {place(row)})"
    text += "" if pd.isna(row["null"]) else f"; an isotropic Gaussian would give {share(float(row['null']))} (Marchenko–Pastur)"
    norms = line.at("top_share_norm_null", row)
    if norms is None:
        return text + "."
    part = float(norms["value"]) / value
    judged = "are enough for it" if part > 0.8 else "account for a good part of it" if part > 0.3 else "do not account for it"
    return f"{text}, uniform directions with the observed norms {share(float(norms['value']))}: heavy norms alone {judged}."


def token_effect(line: Line) -> str | None:
    """What changes without special and first tokens, at the layer where it changes most."""
    known = list_policies(line.table)
    if not {"all", "body"} <= set(known):
        return None
    order = [name for name in ("all", "no-special", "body") if name in known]
    parts = []
    for metric, name in ((line.cosine, COSINE[line.cosine]), ("top_share", "top share")):
        both = line.rows(metric, "all").merge(line.rows(metric, "body"), on=["kind", "layer"], suffixes=("", "_body"))
        if both.empty or ((both["n"] == both["n_body"]) & (both["value"] == both["value_body"])).all():  # an image has neither
            continue
        row = both.iloc[int((both["value"] - both["value_body"]).abs().to_numpy(float).argmax())]
        values = [(policy, line.at(metric, row, policy)) for policy in order]
        path = ", ".join(f"{show(float(found['value']))} ({policy})" for policy, found in values if found is not None)
        change = abs(float(row["value"]) - float(row["value_body"]))
        where = f"changes most in {place(row)}: {path}"
        parts.append(f"the {name} {where if change >= 0.02 else f'hardly changes (in {place(row)}, where it does most: {path})'}")
    return f"Without special and first tokens {'; '.join(parts)}." if parts else None


def static_tables(line: Line) -> str | None:
    """The cosine of the embedding tables, which no text passes through."""
    rows = line.table[line.table["metric"].eq("mean_cosine") & line.table["layer"].isna() & line.table["value"].notna()]
    rows = rows[rows["kind"].isin(["input_embedding", "output_embedding"])].drop_duplicates("kind")
    if rows.empty:
        return None
    parts = [f"{show(value)} in the {kind.replace('_', ' ')}" for kind, value in zip(rows["kind"], rows["value"], strict=True)]
    return f"The mean cosine of the static tables is {listed(parts)}."


def against_untrained(line: Line, others: list[Line]) -> str | None:
    """What training changed, where an untrained twin of the same model and stack is in the table."""
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
    both["above"] = both["low"].fillna(both["value"]) > both["high_twin"].fillna(both["value_twin"])
    both["below"] = both["high"].fillna(both["value"]) < both["low_twin"].fillna(both["value_twin"])
    sites = both.groupby(["kind", "layer"], sort=False, dropna=False, as_index=False).agg(
        {"value": "first", "value_twin": "mean", "gap": "mean", "above": "all", "below": "all"}
    )
    row = sites.iloc[int(sites["gap"].abs().to_numpy(float).argmax())]
    seeds = "" if len(rows) == 1 else f" (mean of {len(rows)} seeds)"
    return (
        f"Beside its untrained twin{seeds} the {COSINE[line.cosine]} differs most in {place(row)}: {show(float(row['value']))} trained, "
        f"{show(float(row['value_twin']))} untrained. The trained model lies clearly above it in "
        f"{int(sites['above'].sum())} and clearly below it in {int(sites['below'].sum())} of {len(sites)} sites."
    )
