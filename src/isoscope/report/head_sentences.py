"""Sentences about a model's attention, head by head."""

from __future__ import annotations

import pandas as pd

from isoscope.core.wording import format_number, format_numbered
from isoscope.estimation.isotropic_quantiles import head_threshold
from isoscope.report.line import Line, greatest, least
from isoscope.statistics.attention_statistics import SINK

MOST_LAYERS = 40
"""The most layers that a sentence names."""


def rows_of_heads(line: Line, metric: str, policy: str | None = None) -> pd.DataFrame:
    """The defined values of an attention metric, one row per head; those of body tokens if there are any."""
    rows = line.table[line.table["kind"].eq("attention") & line.table["metric"].eq(metric) & line.table["head"].notna()]
    # Rows of body tokens leave out special and first tokens, which attend differently.
    chosen = policy or ("body" if rows["policy"].eq("body").any() else line.policy)
    return rows[rows["policy"].eq(chosen) & rows["value"].notna()].sort_values(["layer", "head"], kind="stable")


def name_head(row: pd.Series) -> str:
    """The head of a row: "head 3 of layer 1"."""
    return f"head {int(row['head'])} of layer {int(row['layer'])}"


def sharpness(line: Line) -> str | None:
    """The layers where attention is sharpest and most even, and the sharpest head."""
    rows = rows_of_heads(line, "attention_entropy_normalised")
    if rows.empty:
        return None
    by_layer = rows.groupby("layer")["value"].mean().reset_index()
    low, high, head = least(by_layer), greatest(by_layer), least(rows)
    return (
        f"Attention is sharpest in layer {int(low['layer'])}, where the entropy of a row is {format_number(low['value'])} of the uniform "
        f"row’s on average over heads, and most even in layer {int(high['layer'])} ({format_number(high['value'])}); the sharpest head is "
        f"{name_head(head)} ({format_number(float(head['value']))})."
    )


def sinks(line: Line) -> str | None:
    """The heads that put more than `SINK` of their attention on the first position."""
    rows = rows_of_heads(line, "sink_mass")
    if rows.empty:
        return None
    top = greatest(rows)
    most = f"{name_head(top)} has the most, {format_number(float(top['value']))}"
    heads = rows[rows["value"] > SINK]
    if heads.empty:
        return f"No head is a sink: none puts more than {SINK} of its attention on the first position ({most})."
    return (
        f"{len(heads)} of {len(rows)} heads are sinks, with more than {SINK} of the attention of body tokens on the first position: "
        f"{name_heads(heads, rows)}; {most}."
    )


def name_heads(heads: pd.DataFrame, rows: pd.DataFrame) -> str:
    """Heads by layer, layers with the same heads together; beyond `MOST_LAYERS` only the layers with the most heads."""
    heads_per_layer = rows.groupby("layer").size()
    by_layer = {int(str(layer)): tuple(int(head) for head in own["head"]) for layer, own in heads.groupby("layer")}
    # Models of a hundred layers would make a sentence that nobody reads; the layers with the most sinks say most.
    named = sorted(sorted(by_layer, key=lambda layer: -len(by_layer[layer]))[:MOST_LAYERS])
    together: dict[str, list[int]] = {}
    for layer in named:
        is_complete = len(by_layer[layer]) == heads_per_layer[layer]
        together.setdefault("all heads" if is_complete else format_numbered("head", by_layer[layer]), []).append(layer)
    words = [f"{format_numbered('layer', layers)} ({names})" for names, layers in together.items()]
    left = len(by_layer) - len(named)
    return "; ".join([*words, *([f"and {left} more layers"] if left else [])])


def first_token_effect(line: Line) -> str | None:
    """If there are sinks: the effect of the first token on the top share and the mean cosine, in the layer where it is largest."""
    if not rows_of_heads(line, "sink_mass")["value"].gt(SINK).any():
        return None
    parts = []
    for metric, name in (("top_share", "top share"), ("mean_cosine", "mean cosine")):
        both = line.with_and_without_first_tokens(metric)
        both = both[both["kind"].eq("hidden")]
        if len(both):
            row = greatest(both, "change")
            with_it, without = format_number(float(row["value"])), format_number(float(row["value_body"]))
            parts.append(f"the {name} is {with_it} with it and {without} without (layer {row['layer']})")
    return f"The first token, which sinks attend to, changes hidden states: {'; '.join(parts)}." if parts else None


def alignment(line: Line) -> str | None:
    """The number of heads whose mean queries and mean keys are aligned beyond chance, in the same or opposite directions."""
    rows = rows_of_heads(line, "qk_cosine")
    if rows.empty:
        return None
    level = head_threshold(int(rows["d"].min()), len(rows))
    same, opposite = int((rows["value"] > level).sum()), int((rows["value"] < -level).sum())
    text = (
        f"Mean query and mean key point in the same direction beyond chance (|cosine| above {format_number(level)}, Bonferroni over heads) "
        f"in {same} of {len(rows)} heads, and in opposite directions in {opposite}"
    )
    shares = rows_of_heads(line, "drift_sharpening")["value"]
    if len(shares):
        text += (
            f"; the mean query explains {format_number(float(shares.median()))} of the variance of scores within rows in the median head, "
            f"and at most {format_number(float(shares.max()))}"
        )
    return f"{text}."
