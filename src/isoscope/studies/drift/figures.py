"""Drift and cosine: one against the other, and whether they rise and fall together over the layers."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import tooltips
from isoscope.charts.different_n import COSINES, Title, choose_cosine, split_by_n
from isoscope.charts.legends import BLUE, INK, ORANGE, RED, line_colour
from isoscope.charts.panels import POLICY_IS_CHOSEN, arrange_panels, layer_charts
from isoscope.charts.records import json_records, label_lines, line_names, round_columns, select_layers
from isoscope.core.figure import Figure, figure
from isoscope.core.model_groups import GROUPS
from isoscope.core.numerics import LEVEL
from isoscope.estimation.drift_test import FEWEST_LAYERS, PREDICTORS, associations

TOPIC = "Drift and chance"
SITE = ["line", "stack", "kind", "layer", "policy"]
PUBLISHED, PERMUTED, POOLED = "as published", "differences, permuted", "pooled over the group"
TESTS = {PUBLISHED: ("circle", INK), PERMUTED: ("square", BLUE), POOLED: ("diamond", ORANGE)}
LEAST_P = 1e-6
"""Smaller p-values are drawn at the edge: the published ones reach 10⁻²⁰, the permuted ones end at 10⁻⁴."""


@figure(
    title="Mean cosine against drift",
    caption="One point per layer, joined in order of depth and labelled at both ends; the hollow diamond is the state after the final "
    "norm. If all vectors have the same norm, the mean cosine equals the drift ratio ‖x̄‖²/E‖x‖² (the diagonal): unequal norms make the "
    "distance from it. If lines have different n, the cosine is that between documents, which does not depend on n.",
    topic=TOPIC,
    order=1,
)
def drift_and_cosine(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Mean cosine over drift ratio, one path per line."""
    table, _ = label_lines(table, series)
    rows = select_layers(table)
    cosine = choose_cosine(rows, "line")
    parts = split_by_n(rows[rows["metric"].eq(cosine)], "line", f"{cosine} against drift_ratio")
    pairs = [(pair_metrics(rows[rows["line"].isin(part["line"])], cosine), title) for part, title in parts]
    return arrange_panels([_path_panel(sites, cosine, title, line_names(table)) for sites, title in pairs if len(sites)], table)


def pair_metrics(rows: pd.DataFrame, cosine: str) -> pd.DataFrame:
    """The sites that have both metrics, one row per site in order of depth: the drift ratio, and this metric as `cosine`."""
    rows = rows[rows["metric"].isin([cosine, "drift_ratio"])].drop_duplicates([*SITE, "metric"])
    rows = rows[rows["value"].notna()]
    cosines, ratios = (rows.loc[rows["metric"] == metric, [*SITE, "value"]] for metric in (cosine, "drift_ratio"))
    pairs = cosines.rename(columns={"value": "cosine"}).merge(ratios.rename(columns={"value": "drift_ratio"}), on=SITE)
    return pairs.sort_values(["line", "layer"], kind="stable").reset_index(drop=True)


def _path_panel(rows: pd.DataFrame, cosine: str, title: Title, names: list[str]) -> Any:
    """The paths of lines that may be compared."""
    ends = rows[rows["kind"] == "hidden"].groupby(["line", "policy"], sort=False)["layer"].agg(["min", "max"])
    keyed = rows.merge(ends, left_on=["line", "policy"], right_index=True, how="left")
    is_end = keyed["kind"].eq("hidden") & (keyed["layer"].eq(keyed["min"]) | keyed["layer"].eq(keyed["max"]))
    rows = rows.assign(end=is_end.astype(bool).to_numpy())
    corner = round(float(rows[["drift_ratio", "cosine"]].max().max()) * 1.05, 3)
    x = alt.X("drift_ratio:Q", title="drift ratio", axis=alt.Axis(tickCount=6))
    y = alt.Y("cosine:Q", title=COSINES[cosine])
    tooltip = tooltips("line:N", "kind:N", "layer:Q", "policy:N", "drift_ratio:Q .6g", "cosine:Q .6g", cosine=cosine)
    base = alt.Chart().encode(x=x, y=y, color=line_colour(names))
    hidden, final = (base.transform_filter(f"datum.kind == '{kind}'") for kind in ("hidden", "final"))
    diagonal = alt.Chart({"values": [{"v": 0}, {"v": corner}]}).mark_line(stroke=INK, strokeDash=[5, 3], strokeWidth=1.2)
    paths = layer_charts(
        hidden.mark_line(strokeWidth=1, opacity=0.5).encode(order=alt.Order("layer:Q")),
        hidden.mark_point(filled=True, size=28, opacity=1).encode(tooltip=tooltip),
        final.mark_point(shape="diamond", size=80, strokeWidth=1.8, opacity=1).encode(tooltip=tooltip),
        hidden.transform_filter("datum.end").mark_text(dx=7, dy=-7, fontSize=11).encode(text=alt.Text("layer:Q")),
        data={"values": json_records(rows, [*SITE, "drift_ratio", "cosine", "end"])},
    )
    return layer_charts(diagonal.encode(x=alt.X("v:Q"), y=alt.Y("v:Q")), paths.transform_filter(POLICY_IS_CHOSEN), title=title)


def declare_test(name: str, test: str, statistic: str, order: int) -> Figure:
    """Declare the figure of the p-values that were published for one test (its name, and the symbol of its statistic)."""

    def draw(table: pd.DataFrame, series: pd.DataFrame) -> Any:
        return draw_p_values(table, name.removeprefix("drift_"))

    caption = (
        f"The p-value of {test}’s {statistic} between drift and mean cosine over each model’s layers, left of the red line below 0.05. The "
        "published p (grey) is not a valid test: it treats layers as independent, but each layer is its neighbour and a little more, so "
        "that a third of pairs of random walks over 13 layers pass. Blue squares: Spearman’s ρ on the differences between successive "
        "layers, by permutation; hollow: fewer than 12 layers, no verdict. Diamonds: the same pooled over the models of a group (hollow: "
        "fewer than three). Marks for p below 10⁻⁶ are drawn at the edge."
    )
    return figure(name=name, title=f"Drift and cosine over the layers, by {test}", caption=caption, topic=TOPIC, order=order)(draw)


drift_spearman = declare_test("drift_spearman", "Spearman", "ρ", 2)
drift_pearson = declare_test("drift_pearson", "Pearson", "r", 3)


def draw_p_values(table: pd.DataFrame, statistic: str) -> Any:
    """Figures 5 and 16: one panel per predictor, one row per model with the published p-value and that of permuted differences.

    `statistic`: `spearman` or `pearson`.
    """
    tests = associations(table)
    if tests.empty:
        return None
    models = tests["model"].notna()
    label = label_lines(tests[models].assign(stack=""))[0]["line"]
    tests = tests.assign(row=label.reindex(tests.index).fillna(tests["group"].map(GROUPS)))
    rows: list[str] = []
    for group, title in GROUPS.items():
        members = tests.loc[models & tests["group"].eq(group), "row"].drop_duplicates()
        rows += [title, *members] if len(members) else []
    parts = [
        tests[models].assign(test=PUBLISHED, p=tests[f"{statistic}_p"], solid=True),
        tests[models].assign(test=PERMUTED, solid=tests["layers"] >= FEWEST_LAYERS),
        tests[~models].assign(test=POOLED, solid=~tests["verdict"].str.startswith("no verdict")),
    ]
    marks = pd.concat([part[part["p"].notna()] for part in parts])
    marks = marks.assign(shown=marks["p"].clip(lower=LEAST_P), solid=marks["solid"].astype(bool))
    marks = round_columns(marks, "shown", "p", "difference", statistic)
    panels = [_p_value_panel(part, rows, statistic, name) for name in PREDICTORS if len(part := marks[marks["predictor"] == name])]
    return arrange_panels(panels, table, height=18 * len(rows))


def _p_value_panel(marks: pd.DataFrame, rows: list[str], statistic: str, predictor: str) -> Any:
    """The p-values of one predictor, one row per model below its group's title; hollow if there is no verdict."""
    titles = [title for title in GROUPS.values() if title in rows]
    bold = alt.condition(f"indexof({json.dumps(titles)}, datum.value) >= 0", alt.value("bold"), alt.value("normal"))
    # Titles of groups are rows without marks, set in bold: an axis of names has no headings.
    y = alt.Y("row:N", title=None, scale=alt.Scale(domain=rows), axis=alt.Axis(labelLimit=170, labelFontWeight=bold, grid=True))
    axis = alt.Axis(values=[10.0**k for k in range(-6, 1)], labelExpr="datum.value == 1 ? '1' : format(datum.value, '~e')")
    x = alt.X("shown:Q", title="p-value", scale=alt.Scale(type="log", domain=[LEAST_P, 1], nice=False), axis=axis)
    key = alt.Legend(orient="top", title=None, columns=1, labelLimit=180)
    scale = alt.Scale(domain=list(TESTS), range=[tone for _, tone in TESTS.values()])
    tooltip = tooltips(
        *("row:N", "test:N", "p:Q .3g", "layers:Q", "models:Q", f"{statistic}:Q .3f", "difference:Q .3f", "verdict:N", "policy:N"),
        row="model",
        difference="ρ of differences",
    )
    columns = ["row", "test", "policy", "p", "shown", "solid", "layers", "models", statistic, "difference", "verdict"]
    base = alt.Chart().encode(x=x, y=y)
    points = base.mark_point(size=60, strokeWidth=1.6, opacity=1).encode(
        stroke=alt.Stroke("test:N", scale=scale, legend=key),
        fill=alt.Fill("test:N", scale=scale, legend=key),
        fillOpacity=alt.condition("datum.solid", alt.value(1), alt.value(0)),
        shape=alt.Shape("test:N", scale=alt.Scale(domain=list(TESTS), range=[shape for shape, _ in TESTS.values()]), legend=key),
        tooltip=tooltip,
    )
    pairs = base.mark_line(stroke=INK, strokeWidth=1, opacity=0.4).encode(detail=alt.Detail("row:N"))
    rule = alt.Chart({"values": [{"shown": LEVEL}]}).mark_rule(stroke=RED, strokeDash=[5, 3], strokeWidth=1.4).encode(x=x)
    tests = layer_charts(pairs, points, data={"values": json_records(marks, columns)}).transform_filter(POLICY_IS_CHOSEN)
    return layer_charts(rule, tests, title=f"{predictor} and mean_cosine")
