"""What the table says about a model's attention, head by head, in plain sentences."""

from __future__ import annotations

import pandas as pd

from isoscope.report.chance import listed, runs
from isoscope.report.line import Line, greatest, least, show
from isoscope.statistics.attention import SINK
from isoscope.statistics.chance import head_threshold

MOST_NAMED = 40
"""So many layers are named."""


def of_heads(line: Line, metric: str, policy: str | None = None) -> pd.DataFrame:
    """The defined values of a metric of attention, a row a head; rows of body tokens where there are any."""
    rows = line.table[line.table["kind"].eq("attention") & line.table["metric"].eq(metric) & line.table["head"].notna()]
    chosen = policy or ("body" if rows["policy"].eq("body").any() else line.policy)
    return rows[rows["policy"].eq(chosen) & rows["value"].notna()].sort_values(["layer", "head"], kind="stable")


def sharpness(line: Line) -> str | None:
    """Where attention is sharpest and where it is most even."""
    rows = of_heads(line, "attention_entropy_normalised")
    if rows.empty:
        return None
    by_layer = rows.groupby("layer")["value"].mean().reset_index()
    low, high, head = least(by_layer), greatest(by_layer), least(rows)
    return (
        f"Attention is sharpest in layer {int(low['layer'])}, where the entropy of a row is {show(low['value'])} of the uniform row’s on "
        f"average over heads, and most even in layer {int(high['layer'])} ({show(high['value'])}); the sharpest head is head "
        f"{int(head['head'])} of layer {int(head['layer'])} ({show(float(head['value']))})."
    )


def sinks(line: Line) -> str | None:
    """Which heads put more than `SINK` of their attention on the first position, and what the first token does to the geometry."""
    rows = of_heads(line, "sink_mass")
    if rows.empty:
        return None
    found = rows[rows["value"] > SINK]
    if found.empty:
        top = greatest(rows)
        return (
            f"No head is a sink: none puts more than {SINK} of its attention on the first position (head {int(top['head'])} of layer "
            f"{int(top['layer'])} most, {show(float(top['value']))})."
        )
    top = greatest(found)
    text = (
        f"{len(found)} of {len(rows)} heads are sinks, with more than {SINK} of the attention of body tokens on the first position: "
        f"{named(found, rows)}. Most has head {int(top['head'])} of layer {int(top['layer'])} ({show(float(top['value']))})."
    )
    return text + first_token(line)


def named(found: pd.DataFrame, rows: pd.DataFrame) -> str:
    """Heads by layer, layers with the same heads together; of very many those with the most heads, and how many more there are."""
    every = rows.groupby("layer").size()
    heads = {int(str(layer)): tuple(int(head) for head in own["head"]) for layer, own in found.groupby("layer")}
    shown = sorted(sorted(heads, key=lambda layer: -len(heads[layer]))[:MOST_NAMED])
    together: dict[str, list[int]] = {}
    for layer in shown:
        whole = len(heads[layer]) == every[layer]
        word = "all heads" if whole else f"{'head' if len(heads[layer]) == 1 else 'heads'} {listed(runs(heads[layer]))}"
        together.setdefault(word, []).append(layer)
    words = [f"{'layer' if len(layers) == 1 else 'layers'} {listed(runs(layers))} ({word})" for word, layers in together.items()]
    left = len(heads) - len(shown)
    return "; ".join([*words, *([f"and {left} more layers"] if left else [])])


def first_token(line: Line) -> str:
    """What the first token does to the top share and the mean cosine, in the layer where it does most."""
    parts = []
    for metric, name in (("top_share", "top share"), ("mean_cosine", "mean cosine")):
        both = line.rows(metric, "all").merge(line.rows(metric, "body"), on=["kind", "layer"], suffixes=("", "_body"))
        both = both[both["kind"].eq("hidden")]
        if len(both):
            row = both.iloc[int((both["value"] - both["value_body"]).abs().to_numpy(float).argmax())]
            with_it, without = show(float(row["value"])), show(float(row["value_body"]))
            parts.append(f"the {name} is {with_it} with it and {without} without (layer {row['layer']})")
    return f" What the first token, where they look, does to hidden states: {'; '.join(parts)}." if parts else ""


def alignment(line: Line) -> str | None:
    """How many heads have mean queries and mean keys that are aligned beyond chance, and which way."""
    rows = of_heads(line, "qk_cosine")
    if rows.empty:
        return None
    level = head_threshold(int(rows["d"].min()), len(rows))
    same, opposite = int((rows["value"] > level).sum()), int((rows["value"] < -level).sum())
    text = (
        f"Mean query and mean key point the same way beyond chance (|cosine| above {show(level)}, Bonferroni over heads) in {same} of "
        f"{len(rows)} heads and opposite ways in {opposite}."
    )
    made = of_heads(line, "drift_sharpening")
    if len(made):
        text += (
            f" The mean query makes {show(float(made['value'].median()))} of the variance of scores within rows in the median head, "
            f"at most {show(float(made['value'].max()))}."
        )
    return text
