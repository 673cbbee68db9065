"""Numbers over the steps of a training: heads, layers and seeds (Figures 13 to 15 and 23 of paper 1, and "The Shape of Learning")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.different_n import split_by_n
from isoscope.charts.legends import PALETTE, Curve, curve_encodings, cycle_palette, layer_colour
from isoscope.charts.panels import arrange_panels
from isoscope.charts.records import pick_evenly, select_layers
from isoscope.core.figure import figure
from isoscope.core.model_groups import select_first_seed
from isoscope.estimation.isotropic_quantiles import head_threshold
from isoscope.studies.training_dynamics.step_charts import (
    add_seed_look,
    read_verdict,
    seed_range,
    select_checkpoints,
    step_panel,
    suite_title,
)

COSINE = "cosine of mean query and key"
LAYER_PANELS = 12
"""At most this many layers have a panel, evenly spaced."""
Metrics = dict[str, tuple[str, str]]
"""Metrics with the title of their panel and of its axis."""
GEOMETRY: Metrics = {
    "mean_cosine": ("mean cosine", "mean cosine"),
    "drift_ratio": ("drift ratio", "drift ratio"),
    "top_share": ("top share", "top share"),
    "effective_rank": ("effective rank", "dimensions"),
}
DIMENSION: Metrics = {"two_nn": ("by layer, the whole sample", "intrinsic dimension")}
ENTROPY: Metrics = {
    "attention_entropy": ("entropy of a row, in nats", "nats"),
    "attention_entropy_normalised": ("entropy as a part of the uniform row’s", "part of uniform"),
}
ALIGNMENT: Metrics = {"alignment": ("cos² of mean query and mean key", "mean over heads")}
CLOUDS = {"dimension_judged": "hidden states", "dimension_gaussian": "Gaussian points with their covariance"}


@figure(
    title="Figure 13: do mean query and mean key align in training?",
    caption="The cosine of the mean query and the mean key of each head, after the query and key norm if there is one and before rotary, "
    "over the steps of the first seed; one panel per layer, one colour per head. By chance, the largest of all heads of the stack stays "
    "between the dotted lines in 95 % of cases (Bonferroni). The axis of steps is logarithmic, but shows step 0.",
    order=4,
    over_steps=True,
)
def training_cosine(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel per layer, one line per head."""
    return draw_heads(table, "qk_cosine", y=COSINE, domain=[-1, 1])


@figure(
    title="Figure 14: the score of mean query and mean key",
    caption="The dot product of the mean query and the mean key of each head in logits, with the model’s own scale, over the steps of the "
    "first seed; one panel per layer, one colour per head. If the directions of the means were unrelated, the largest of all heads would "
    "stay between the dotted lines in 95 % of cases (at the length of the longest means of the layer). The product is the same for a whole "
    "row of attention and cancels in softmax.",
    order=5,
    over_steps=True,
)
def training_dot(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel per layer, one line per head."""

    def lengths(rows: pd.DataFrame) -> pd.Series:
        # Under the null the product has standard deviation scale · ‖Q̄‖‖K̄‖ / √d, so this is the product of two parallel means.
        products: pd.Series = rows["null_sd"] * rows["d"].astype("float64") ** 0.5
        return products

    return draw_heads(table, "qk_dot", y="product of the means, logits", lengths=lengths)


@figure(
    title="Figure 15: does attention sharpen in training?",
    caption="The entropy of rows of attention, averaged over rows and heads; one line per layer, coloured from the first to the last. "
    "Strong: the first seed; thin: other seeds, if there are any. Dashed: rows that attend to all open positions equally.",
    order=6,
    over_steps=True,
)
def training_entropy(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel in nats and one as a part of uniform, one line per layer."""
    rows = table[table["kind"].eq("attention") & table["head"].notna() & table["value"].notna() & table["metric"].isin(list(ENTROPY))]
    by = ["model", "stack", "seed", "step", "layer", "policy", "metric", "interval_about"]
    means = rows.groupby(by, dropna=False, sort=False)[["value", "null", "n"]].mean().reset_index()
    panels = layer_panels(means.assign(revision=None), ENTROPY, thin=True, dashed="attention_entropy")
    return arrange_panels(panels, table, own_colours=True)


@figure(
    title="Alignment compared with that of different heads",
    caption="The mean over heads of the squared cosine of mean query and mean key, whichever way they point; one line per layer, strong in "
    "the first seed, thin in the others. Dashed: the same with the query of one head and the key of another head of the layer. Alignment "
    "has to exceed this level, because the means of one layer share an input and are not isotropic.",
    order=7,
    over_steps=True,
)
def training_alignment(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel per suite, one line per layer."""
    rows = table[table["metric"].eq("alignment") & table["value"].notna() & table["layer"].notna()]
    return arrange_panels(layer_panels(rows, ALIGNMENT, thin=True, dashed="alignment"), table, own_colours=True)


@figure(
    title="Geometry over the steps of training",
    caption="One line per layer in the first seed, coloured from the first layer to the last; the band is the range over all seeds, at "
    "steps that at least two seeds have. The axis of steps is logarithmic, but shows step 0.",
    order=10,
    over_steps=True,
)
def training_geometry(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel per metric, one line per layer."""
    return arrange_panels(layer_panels(_hidden_rows(table, GEOMETRY), GEOMETRY), table, own_colours=True)


@figure(
    title="Intrinsic dimension over training: rise, then fall?",
    caption="Left: TwoNN by layer in the first seed, coloured from the first layer to the last, with the range over seeds. Right: the mean "
    "over blocks on the half of the documents that decides whether it rises and then falls, and the same for Gaussian points with the "
    "covariance of each step; thin lines are other seeds. The other half of the documents and seeds picks the peak. The claim holds if "
    "rise and fall both exceed a tenth of the peak in five of five seeds or more; the title gives the verdict.",
    order=11,
    over_steps=True,
)
def training_dimension(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Two panels per suite: one line per layer, and the mean over blocks next to its Gaussian."""
    panels = layer_panels(_hidden_rows(table, DIMENSION), DIMENSION)
    return arrange_panels([*panels, *_deciding_panels(table, series)], table, own_colours=True)


def _deciding_panels(table: pd.DataFrame, series: pd.DataFrame) -> list[Any]:
    """The mean over the blocks of each stack, on the half of the documents that decides."""
    rows = series[series["name"].isin(list(CLOUDS)) & series["layer"].isna() & series["y"].notna()]
    rows = add_seed_look(select_checkpoints(rows.rename(columns={"y": "value"})))
    rows = rows.assign(cloud=rows["name"].map(CLOUDS))
    legend = alt.Legend(orient="top", title=None, symbolType="stroke", symbolOpacity=1, labelLimit=300)
    scale = alt.Scale(domain=list(CLOUDS.values()), range=PALETTE[: len(CLOUDS)])
    colours = {"color": alt.Color("cloud:N", scale=scale, legend=legend)}
    panels = []
    for line, suite in rows.groupby("line", sort=False):
        tests = table[table["metric"].eq("rise_then_fall") & table["layer"].isna() & table["model"].eq(suite["model"].iloc[0])]
        tests = tests[tests["stack"].eq(suite["stack"].iloc[0])]
        verdict = [f"rise, then fall: {read_verdict(tests['spec'].iloc[0])}"] if len(tests) else []
        title = [*suite_title(str(line), "mean over blocks", rows), *verdict]
        panels.append(step_panel(suite, title=title, y="intrinsic dimension", by="cloud", colours=colours))
    return panels


@figure(
    title="Figure 23: the same with all heads joined, seed by seed",
    caption="The cosine of the mean query and the mean key of a layer, its heads concatenated into one vector, over the steps; one panel "
    "per layer, one colour per seed, points alone if a seed has few steps. Heads with the same and with opposite directions cancel here, "
    "and long means count most. By chance, the largest of all layers stays between the dotted lines in 95 % of cases (Bonferroni over "
    "layers).",
    order=17,
    over_steps=True,
)
def training_seeds(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel per layer, one line per seed."""
    rows = table[table["metric"].eq("qk_cosine_joined") & table["value"].notna()]
    rows = add_seed_look(select_checkpoints(rows), other="strong")
    rows = rows.assign(curve=["seed not named" if pd.isna(seed) else f"seed {seed}" for seed in rows["seed"]])
    # The smallest d gives the widest level, and Bonferroni counts the layers.
    return draw_layers(table, rows, by="curve", units=["layer"], colours=_seed_colours, y=COSINE, domain=[-1, 1])


def _seed_colours(rows: pd.DataFrame) -> dict[str, Any]:
    names = [str(name) for name in rows.sort_values("seed")["curve"].drop_duplicates()]
    return curve_encodings([Curve(name, tone) for name, tone in zip(names, cycle_palette(len(names)), strict=True)])


def draw_heads(table: pd.DataFrame, metric: str, **look: Any) -> Any:
    """One panel per layer with one line per head, in the first seed of every suite; `look` as in `draw_layers`."""
    rows = table[table["kind"].eq("attention") & table["head"].notna() & table["metric"].eq(metric) & table["value"].notna()]
    rows = select_first_seed(select_checkpoints(rows))
    return draw_layers(table, rows, by="head", units=["layer", "head"], colours=_head_colours, own_colours=True, **look)


def _head_colours(rows: pd.DataFrame) -> dict[str, Any]:
    """One colour per head, without a legend: the tooltip names the head."""
    heads = sorted(int(head) for head in rows["head"].unique())
    return {"color": alt.Color("head:N", scale=alt.Scale(domain=heads, range=cycle_palette(len(heads))), legend=None)}


def draw_layers(
    table: pd.DataFrame,
    rows: pd.DataFrame,
    *,
    by: str,
    units: list[str],
    colours: Callable[[pd.DataFrame], dict[str, Any]],
    y: str,
    lengths: Callable[[pd.DataFrame], Any] = lambda rows: 1.0,
    domain: list[float] | None = None,
    own_colours: bool = False,
) -> Any:
    """One panel per layer and suite with the level of chance, and one line per value of the column `by`; None without rows.

    Args:
        units: the columns that tell apart the cosines of a suite, for Bonferroni.
        colours: from the rows of a suite to the encodings of colour.
        lengths: from rows to the number that a cosine of 1 would give.
    """
    panels = []
    for line, suite in rows.groupby("line", sort=False):
        level, tones = head_threshold(int(suite["d"].min()), len(suite[units].drop_duplicates())), colours(suite)
        for layer in pick_evenly(suite["layer"], LAYER_PANELS):
            for part, title in split_by_n(suite[suite["layer"].eq(layer)], "step", suite_title(str(line), f"layer {layer}", rows)):
                # One band for all lines of the panel: at each step the widest of their levels.
                chance = part.assign(high=lengths(part) * level).groupby(["policy", "step"])["high"].max().reset_index()
                chance = chance.assign(low=-chance["high"])
                panels.append(step_panel(part, title=title, y=y, by=by, colours=tones, chance=chance, domain=domain))
    return arrange_panels(panels, table, columns=3, own_colours=own_colours)


def layer_panels(rows: pd.DataFrame, metrics: Metrics, *, thin: bool = False, dashed: str = "") -> list[Any]:
    """One panel per suite and metric, one line per layer.

    The first seed is drawn strong. The other seeds are drawn as their range or, if `thin`, as thin lines. `dashed` names the metric whose
    null is drawn too.
    """
    rows = add_seed_look(select_checkpoints(rows))
    panels = []
    for line in rows["line"].drop_duplicates():
        for metric, (words, y) in metrics.items():
            layers = rows[rows["line"].eq(line) & rows["metric"].eq(metric)]
            null = "null" if metric == dashed and layers["null"].notna().any() else None
            for part, title in split_by_n(layers, "step", suite_title(str(line), words, rows)):
                drawn = part if thin else part[part["look"].eq("strong")]
                if drawn.empty:  # the first seed lacks this number, so the first seed that has it takes its place
                    seeds = part["seed"].fillna(-1)
                    drawn = part[seeds.eq(seeds.min())].assign(look="strong")
                look: dict[str, Any] = {"title": title, "y": y, "colours": {"color": layer_colour(layers["layer"])}}
                panels.append(step_panel(drawn, by="layer", seeds=None if thin else seed_range(part, "layer"), dashed=null, **look))
    return panels


def _hidden_rows(table: pd.DataFrame, metrics: Metrics) -> pd.DataFrame:
    rows = select_layers(table)
    return rows[rows["kind"].eq("hidden") & rows["metric"].isin(list(metrics)) & rows["value"].notna()]
