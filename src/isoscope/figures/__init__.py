"""Figures: one pure function a file, from the two tables to a chart. The few things that all of them share are here.

A figure of several panels returns a plain `alt.concat`, so that a print file gets one sheet and a page can lay the same panels
out by its own width. Every chart carries the parameter `policy`: the page sets it, a print file shows its first value.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pandas as pd

from isoscope.core.figure import Figure
from isoscope.core.group import GROUPS, UNTRAINED, grouped, in_a_row
from isoscope.core.published import published
from isoscope.core.registry import Registry
from isoscope.core.slice import POLICIES
from isoscope.statistics.association import FEWEST_LAYERS, LEVEL, PREDICTORS, associations

__all__ = [
    "AVERAGE",
    "DEPTH",
    "INK",
    "INTERVAL",
    "LINE_COLUMNS",
    "PAIR",
    "PALETTE",
    "POLICY_IS_CHOSEN",
    "BiasCurve",
    "Curve",
    "bias_figure",
    "bias_panel",
    "bias_points",
    "by_network",
    "colour",
    "curve_scales",
    "decades",
    "depth_colour",
    "figures",
    "grid",
    "group_profile",
    "in_layers",
    "labelled",
    "layer_axis",
    "lines",
    "model_curves",
    "one_pair",
    "p_values",
    "peak_layers",
    "policies",
    "records",
    "short",
    "title_by_policy",
    "with_curves",
]

figures: Registry[Figure] = Registry(sys.modules[__name__], "figure", Figure)

LINE_COLUMNS = ["model", "revision", "step", "seed", "stack"]
"""What makes a line of its own in a profile: an encoder and a decoder are two, and so are two checkpoints."""

PALETTE = ["#4c78a8", "#e4762b", "#3f9d63", "#c2559b", "#b8912b", "#2a9db0", "#d24b4b", "#8b6fc0", "#8a8f3c", "#7d7f86"]
"""Tones of middling lightness, so that they read on white paper and on a dark page alike."""

DEPTH = ["#3b82c4", "#8f6fc9", "#d9588a", "#f0853b"]
"""From the first layer to the last."""

INK = "#7d7f86"
"""References and what is neither a model nor a layer."""

POLICY_IS_CHOSEN = "datum.policy == policy"
"""Keeps the rows of the token policy that the reader chose."""

INTERVAL = "isValid(datum.low) ? format(datum.low, '.4g') + ' to ' + format(datum.high, '.4g') : 'none'"
"""A row's 95 % interval in words, for a tooltip, put together by the reader's browser."""

PANEL = 380, 220
"""Width and height in a print file; a page chooses its own width."""


def labelled(table: pd.DataFrame, series: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables with a column `line`: the model's name, and as much of revision, step, seed and stack as tells lines apart."""
    frames = [frame[LINE_COLUMNS].astype("string").fillna("") for frame in (table, series)]
    known = [tuple(map(str, row)) for row in pd.concat(frames).drop_duplicates().to_numpy()]
    seen = {(model, i): len({row[i] for row in known if row[0] == model}) for model, *_ in known for i in range(len(LINE_COLUMNS))}
    names = {}
    for row in known:
        model, revision, *rest = (word if i == 0 or seen[row[0], i] > 1 else "" for i, word in enumerate(row))
        words = [f"{model}@{revision}" if revision else model]
        words += [f"{prefix}{word}" for prefix, word in zip(("step ", "seed ", ""), rest, strict=True) if word]
        names[row] = " · ".join(words)

    def with_line(frame: pd.DataFrame, keys: pd.DataFrame) -> pd.DataFrame:
        line = [names[tuple(map(str, key))] for key in keys.to_numpy()]
        return frame.assign(line=pd.Series(line, index=frame.index, dtype="string"))

    return with_line(table, frames[0]), with_line(series, frames[1])


def lines(table: pd.DataFrame) -> list[str]:
    """The lines of a labelled table, in the order in which they come."""
    return [str(name) for name in table["line"].drop_duplicates()]


def policies(table: pd.DataFrame) -> list[str]:
    """The token policies of a table, the standard ones first."""
    found = [str(name) for name in table["policy"].dropna().drop_duplicates()]
    standard = [name for name in POLICIES if name in found]
    return standard + sorted(set(found) - set(standard))


def in_layers(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that belong to a depth: hidden states and the state after the final norm, not the static tables, not heads."""
    keep = frame["kind"].isin(["hidden", "final"]) & frame["layer"].notna() & frame["head"].isna()
    return frame[keep.fillna(False).astype(bool)]


def peak_layers(table: pd.DataFrame) -> pd.DataFrame:
    """For each line and policy the hidden layer with the greatest cosine between items (or over all pairs, where that is all)."""
    rows = in_layers(table)
    rows = rows[rows["kind"].eq("hidden") & rows["value"].notna()]
    chosen = [
        rows_of_one.loc[rows_of_one["value"].idxmax(), ["line", "policy", "layer"]]
        for _, group in rows[rows["metric"].isin(["between_cosine", "mean_cosine"])].groupby(["line", "policy"], sort=False)
        if len(rows_of_one := group[group["metric"] == group["metric"].min()])
    ]
    return pd.DataFrame(chosen, columns=["line", "policy", "layer"])


def records(frame: pd.DataFrame, columns: list[str]) -> tuple[dict[str, Any], ...]:
    """Rows as JSON knows them: what is missing or not finite is null. A tuple, as Altair copies lists at every step."""

    def plain(x: Any) -> Any:
        if x is pd.NA or x is None:
            return None
        x = x.item() if hasattr(x, "item") else x
        return None if isinstance(x, float) and not math.isfinite(x) else x

    values = [[plain(x) for x in frame[column].astype(object)] for column in columns]
    return tuple(dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True))


def colour(names: list[str], *, legend: bool = True) -> Any:
    """One colour a line, the same in every chart drawn from one table."""
    import altair as alt

    tones = [PALETTE[i % len(PALETTE)] for i in range(len(names))]
    key = alt.Legend(orient="top", columns=3, labelLimit=300, title=None, symbolType="stroke", symbolOpacity=1) if legend else None
    return alt.Color("line:N", scale=alt.Scale(domain=names, range=tones), legend=key)


def depth_colour() -> Any:
    """Colour by layer."""
    import altair as alt

    legend = alt.Legend(title="layer", orient="right", gradientLength=120, tickMinStep=1, format="d")
    return alt.Color("layer:Q", scale=alt.Scale(range=DEPTH), legend=legend)


def layer_axis(field: str = "layer") -> Any:
    """The layers from left to right, whole numbers only, however many there are."""
    import altair as alt

    return alt.X(f"{field}:Q", title="layer", axis=alt.Axis(format="d", tickMinStep=1), scale=alt.Scale(nice=False, padding=8))


def title_by_policy(titles: Mapping[str, list[str]]) -> Any:
    """A title that follows the chosen policy; the words are quoted as JSON, so nothing in them is read as an expression."""
    import altair as alt

    return alt.TitleParams(text=alt.ExprRef(f"{json.dumps(dict(titles))}[policy] || ''"))


def decades(values: pd.Series) -> list[float]:
    """The powers of ten that values span, as the ticks of a logarithmic axis.

    >>> decades(pd.Series([0.03, 20.0]))
    [0.01, 0.1, 1.0, 10.0, 100.0]
    """
    low, high = math.floor(math.log10(values.min())), math.ceil(math.log10(values.max()))
    return [10.0**power for power in range(low, high + 1)]


def grid(panels: list[Any], table: pd.DataFrame, *, columns: int = 2, own_colours: bool = False, height: int = PANEL[1]) -> Any:
    """Panels of equal size as one chart that knows the token policies of the table; None where there is no panel.

    `own_colours`: each panel has a colour scale, and so a legend, of its own.
    """
    import altair as alt

    if not panels:
        return None
    # Set on the finished chart: Altair's own methods copy every panel at every step, which takes seconds for twenty of them.
    for panel in panels:
        panel.width, panel.height = PANEL[0], height
    scale = alt.ScaleResolveMap(color="independent") if own_colours else alt.ScaleResolveMap(color="shared", strokeDash="shared")
    whole = panels[0] if len(panels) == 1 else alt.concat(*panels, columns=columns, resolve=alt.Resolve(scale=scale))
    whole.params = [alt.VariableParameter(name="policy", value=policies(table)[0])]
    return whole


@lru_cache
def one_pair(d: int, q: float = 0.95) -> float:
    """The q-quantile of the cosine of *one pair* of isotropic vectors: (1 + c)/2 ~ Beta((d − 1)/2, (d − 1)/2).

    >>> [round(one_pair(d), 4) for d in (16, 768, 4096)]
    [0.4124, 0.0594, 0.0257]
    """
    from scipy.special import betaincinv

    return float(2 * betaincinv((d - 1) / 2, (d - 1) / 2, q) - 1)


def short(values: pd.Series) -> list[float]:
    """Numbers with five digits: more cannot be seen, and would weigh."""
    return [float(f"{x:.5g}") for x in values.astype("float64")]


@dataclass(frozen=True)
class Curve:
    """One entry of a legend: a network with all of its stacks, a published curve, or a level that others are held against."""

    name: str
    tone: str = INK
    dash: tuple[int, ...] = (1, 0)


AVERAGE = Curve("isotropic: the average over pairs, 0")
PAIR = Curve("isotropic: 95th percentile of one pair, at its d", dash=(1, 3))
"""The two levels of isotropy, which are often mistaken for each other."""


def with_curves(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a column `curve`, a network with all of its stacks, and its `tone`: the colour of its first line elsewhere."""
    none = table.iloc[:0]
    by_line = labelled(table, none)[0]
    tones = {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(lines(by_line))}
    curve = labelled(table.assign(stack=""), none)[0]["line"]
    return table.assign(curve=curve, tone=by_line["line"].map(tones).groupby(curve).transform("first"))


def model_curves(rows: pd.DataFrame) -> list[Curve]:
    """The networks of a table with curves, each with a tone of its own as long as there are enough; untrained ones are dashed."""
    found: dict[str, Curve] = {}
    for name, tone in rows[["curve", "tone"]].drop_duplicates().itertuples(index=False):
        taken = {INK, *(curve.tone for curve in found.values())}
        free = tone if tone not in taken else next((other for other in PALETTE if other not in taken), tone)
        found.setdefault(name, Curve(name, free, (6, 3) if name.startswith(UNTRAINED) else (1, 0)))
    return list(found.values())


def curve_scales(drawn: list[Curve], *, dashed: bool = True) -> dict[str, Any]:
    """The encodings that give each curve its colour and dash, with one legend for both."""
    import altair as alt

    names = [curve.name for curve in drawn]
    key = alt.Legend(orient="top", columns=2, labelLimit=370, title=None, symbolType="stroke", symbolOpacity=1, symbolSize=300)
    tone = alt.Color("curve:N", scale=alt.Scale(domain=names, range=[curve.tone for curve in drawn]), legend=key)
    dash = alt.StrokeDash("curve:N", scale=alt.Scale(domain=names, range=[list(curve.dash) for curve in drawn]), legend=key)
    return {"color": tone, "strokeDash": dash} if dashed else {"color": tone}


def group_profile(group: str, table: pd.DataFrame, kinds: Mapping[str, str], levels: Mapping[Curve, float]) -> Any:
    """Mean cosine of one group's models by layer, and by relative depth where vectors are hidden states; None where it has no model.

    `kinds`: the kinds of site with the titles of their panels; one that is not in the table has none. `levels`: what is drawn as a rule.
    """
    rows = grouped(with_curves(table))
    rows = rows[rows["group"].eq(group) & rows["metric"].eq("mean_cosine") & rows["layer"].notna() & rows["head"].isna()]
    rows = rows[rows["kind"].isin([*kinds, "final"]) & rows["value"].notna()]
    if not rows["kind"].isin(list(kinds)).any():
        return None
    rows = in_a_row(rows).drop_duplicates(["curve", "stack", "kind", "layer", "policy"])
    models = model_curves(rows)
    rows = rows.assign(pair=[one_pair(max(int(d), 2)) for d in rows["d"]]).sort_values("place", kind="stable")
    rows = rows.assign(**{name: short(rows[name]) for name in ("value", "low", "high", "pair", "depth")})
    beside = published_beside(rows)
    tones = {curve.name: curve.tone for curve in models}
    known = [*models, *(Curve(name, tones[of], (2, 2)) for name, of in beside[["curve", "of"]].drop_duplicates().to_numpy()), *levels, PAIR]
    made = []
    for kind, title in kinds.items():
        own = rows[rows["kind"].isin([kind, "final"] if kind == "hidden" else [kind])]
        if own["kind"].eq(kind).any():
            for field in ("place", "depth") if kind in ("hidden", "map") else ("place",):
                where = "by relative depth" if field == "depth" else "by layer"
                made.append(_profile(own, beside[beside["kind"] == kind], field, known, levels, f"{title} {where}"))
    return grid(made, table)


def published_beside(rows: pd.DataFrame) -> pd.DataFrame:
    """The published curves of the models in these rows, `of` whose curve they are drawn beside; a checkpoint more adds none."""
    found = []
    for (curve, model), own in rows[rows["kind"] == "hidden"].groupby(["curve", "model"], sort=False):
        last = max(int(own["place"].max()), 1)
        for other in published(str(model)):
            for place, value in enumerate(other.values, other.first):
                name = f"{model}: {other.label}"
                found.append({"curve": name, "of": curve, "kind": "hidden", "place": place, "depth": place / last, "value": value})
    frame = pd.DataFrame(found, columns=["curve", "of", "kind", "place", "depth", "value"])
    return frame.drop_duplicates(["curve", "place"])


def _profile(rows: pd.DataFrame, beside: pd.DataFrame, field: str, known: list[Curve], levels: Mapping[Curve, float], title: str) -> Any:
    """One panel of a group: levels, seams, intervals, models, published curves; `field` is `place` or `depth`."""
    import altair as alt

    scales = curve_scales(known)
    tone = {"color": scales["color"]}
    x = (
        layer_axis(field)
        if field == "place"
        else alt.X("depth:Q", title="relative depth", scale=alt.Scale(domain=[0, 1], nice=False, padding=8))
    )
    y = alt.Y("value:Q", title="mean cosine", scale=alt.Scale(zero=True))
    weight = alt.Opacity("weight:Q", scale=None, legend=None)
    stack = alt.Detail("stack:N")
    columns = ["curve", "stack", "kind", "layer", "policy", "value", "low", "high", "pair", "n", "d", field]
    tooltip = [alt.Tooltip("curve:N", title="model"), *map(alt.Tooltip, ("stack:N", "kind:N", "layer:Q"))]
    tooltip += [alt.Tooltip("policy:N", title="tokens"), alt.Tooltip("value:Q", title="mean cosine", format=".4g")]
    tooltip += [alt.Tooltip("interval:N", title="95 % interval")]
    tooltip += [
        alt.Tooltip("pair:Q", title="one isotropic pair, 95 %", format=".3g"),
        alt.Tooltip("n:Q", format=","),
        alt.Tooltip("d:Q", format=","),
    ]
    base = alt.Chart().encode(x=x)
    layers, final = base.transform_filter("datum.kind != 'final'"), base.transform_filter("datum.kind == 'final'")
    band = {"y": alt.Y("low:Q", title="mean cosine"), "y2": alt.Y2("high:Q")}
    pair = {"y": alt.Y("pair:Q", title="mean cosine"), "detail": [alt.Detail("curve:N"), stack]}
    models = alt.layer(
        layers.mark_line(stroke=INK, strokeDash=list(PAIR.dash), strokeWidth=1.2).encode(**pair),
        *([layers.mark_area(opacity=0.18).encode(**band, **tone, detail=stack)] if rows["low"].notna().any() else []),
        layers.mark_line(strokeWidth=1.8).encode(y=y, **scales, detail=stack, opacity=weight),
        layers.mark_point(filled=True, size=20).encode(y=y, **tone, opacity=weight, tooltip=tooltip),
        final.mark_point(shape="diamond", size=75, strokeWidth=1.8).encode(y=y, **tone, opacity=weight, tooltip=tooltip),
        data={"values": records(rows, columns)},
    )
    others = [_seams(rows, field).encode(x=x, **tone)] if rows["seam"].gt(0).any() else []
    if len(beside):
        drawn = alt.Chart({"values": records(beside.assign(depth=short(beside["depth"])), ["curve", field, "value"])}).encode(x=x, y=y)
        tip = [
            alt.Tooltip("curve:N", title="published"),
            alt.Tooltip(f"{field}:Q", format=".3g"),
            alt.Tooltip("value:Q", title="mean cosine"),
        ]
        others += [drawn.mark_line(strokeWidth=1.4).encode(**scales), drawn.mark_point(size=14, strokeWidth=1).encode(**tone, tooltip=tip)]
    rules = [
        alt.Chart({"values": [{"value": level}]}).mark_rule(stroke=curve.tone, strokeDash=list(curve.dash), opacity=0.8).encode(y=y)
        for curve, level in levels.items()
    ]
    faint = f"indexof(datum.curve, '{UNTRAINED}') == 0 ? 0.6 : 1"
    models = models.transform_filter(POLICY_IS_CHOSEN).transform_calculate(interval=INTERVAL, weight=faint)
    return alt.layer(*rules, models, *others, title=title)


def _seams(rows: pd.DataFrame, field: str) -> Any:
    """A rule where a model's second stack begins, halfway between the last layer of the first and the first of the second."""
    import altair as alt

    first = rows[rows["seam"] > 0].drop_duplicates(["curve", "stack"])
    step = first["depth"] / first["place"] if field == "depth" else 1.0
    marks = first.assign(**{field: short((first["seam"] - 0.5) * step)})
    return alt.Chart({"values": records(marks, ["curve", "stack", field])}).mark_rule(strokeDash=[2, 3], opacity=0.7)


TESTS = {"as published": ("circle", INK), "differences, permuted": ("square", PALETTE[0]), "pooled over the group": ("diamond", PALETTE[1])}
LEAST_P = 1e-6
"""Smaller p-values are drawn at the edge: the published ones reach 10⁻²⁰, the permuted ones end at 10⁻⁴."""


def p_values(table: pd.DataFrame, published_p: str) -> Any:
    """Two p-values a model, a panel a predictor: `published_p` (a column of the associations) and that of permuted differences."""
    found = associations(table)
    if found.empty:
        return None
    models = found["model"].notna()
    label = labelled(found[models].assign(stack=""), found.iloc[:0].assign(stack=""))[0]["line"]
    found = found.assign(row=label.reindex(found.index).fillna(found["group"].map(GROUPS)))
    rows: list[str] = []
    for group, title in GROUPS.items():
        own = found.loc[models & found["group"].eq(group), "row"].drop_duplicates()
        rows += [title, *own] if len(own) else []
    parts = [
        found[models].assign(test="as published", p=found[published_p], solid=True),
        found[models].assign(test="differences, permuted", solid=found["layers"] >= FEWEST_LAYERS),
        found[~models].assign(test="pooled over the group", solid=~found["verdict"].str.startswith("no verdict")),
    ]
    marks = pd.concat([part[part["p"].notna()] for part in parts])
    marks = marks.assign(shown=short(marks["p"].clip(lower=LEAST_P)), solid=marks["solid"].astype(bool))
    marks = marks.assign(**{name: short(marks[name]) for name in ("p", "difference", published_p.removesuffix("_p"))})
    panels = [_panel_of_p(marks[marks["predictor"] == name], rows, published_p, name) for name in PREDICTORS]
    return grid([panel for panel in panels if panel is not None], table, height=18 * len(rows))


def _panel_of_p(marks: pd.DataFrame, rows: list[str], published_p: str, predictor: str) -> Any:
    """The p-values of one predictor, a row a model below its group's title; hollow where no verdict is given. None without any."""
    import altair as alt

    if marks.empty:
        return None
    titles = [title for title in GROUPS.values() if title in rows]
    bold = alt.condition(f"indexof({json.dumps(titles)}, datum.value) >= 0", alt.value("bold"), alt.value("normal"))
    y = alt.Y("row:N", title=None, scale=alt.Scale(domain=rows), axis=alt.Axis(labelLimit=170, labelFontWeight=bold, grid=True))
    ticks = [10.0**k for k in range(-6, 1)]
    axis = alt.Axis(values=ticks, labelExpr="datum.value == 1 ? '1' : format(datum.value, '~e')")
    x = alt.X("shown:Q", title="p-value", scale=alt.Scale(type="log", domain=[LEAST_P, 1], nice=False), axis=axis)
    key = alt.Legend(orient="top", title=None, columns=2, labelLimit=180)
    scale = alt.Scale(domain=list(TESTS), range=[tone for _, tone in TESTS.values()])
    shape = alt.Shape("test:N", scale=alt.Scale(domain=list(TESTS), range=[shape for shape, _ in TESTS.values()]), legend=key)
    statistic = published_p.removesuffix("_p")
    tooltip = [alt.Tooltip("row:N", title="model"), "test:N", alt.Tooltip("p:Q", format=".3g"), alt.Tooltip("layers:Q"), "models:Q"]
    tooltip += [alt.Tooltip(f"{statistic}:Q", format=".3f"), alt.Tooltip("difference:Q", title="ρ of differences", format=".3f")]
    tooltip += ["verdict:N", alt.Tooltip("policy:N", title="tokens")]
    columns = ["row", "test", "policy", "p", "shown", "solid", "layers", "models", statistic, "difference", "verdict"]
    base = alt.Chart().encode(x=x, y=y)
    points = base.mark_point(size=60, strokeWidth=1.6, opacity=1).encode(
        stroke=alt.Stroke("test:N", scale=scale, legend=key),
        fill=alt.Fill("test:N", scale=scale, legend=None),
        fillOpacity=alt.condition("datum.solid", alt.value(1), alt.value(0)),
        shape=shape,
        tooltip=tooltip,
    )
    pairs = base.mark_line(stroke=INK, strokeWidth=1, opacity=0.4).encode(detail="row:N")
    rule = alt.Chart({"values": [{"shown": LEVEL}]}).mark_rule(stroke=PALETTE[6], strokeDash=[5, 3], strokeWidth=1.4).encode(x=x)
    drawn = alt.layer(pairs, points, data={"values": records(marks, columns)}).transform_filter(POLICY_IS_CHOSEN)
    return alt.layer(rule, drawn, title=f"{predictor} and mean_cosine")


@dataclass(frozen=True)
class BiasCurve:
    """A curve of the untrained block by the norm of its bias: its name in the series and in a legend, whose state it is, and its look."""

    name: str
    label: str
    enters: bool = False
    """What enters the first block, not what leaves or lies within the last."""
    tone: str = PALETTE[0]
    dash: tuple[int, ...] = (1, 0)


DEEP = [(1, 0), (7, 3), (2, 2)]
"""Dashes of the depths after which a network is measured, the least first."""


def by_network(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of untrained blocks with the `line` of their network: all of its draws together, two of one name apart."""
    return labelled(frame.assign(seed=None, stack=None), frame.iloc[:0])[0].assign(seed=frame["seed"])


def bias_points(series: pd.DataFrame, drawn: list[BiasCurve]) -> tuple[pd.DataFrame, list[Curve]]:
    """The curves by network: mean, least and greatest over draws at every norm of the bias; and the entries of their legend."""
    found: list[pd.DataFrame] = []
    known: dict[str, Curve] = {}
    series = by_network(series)
    for curve in drawn:
        own = series[series["name"].eq(curve.name) & (series["layer"].eq(0) if curve.enters else series["layer"].gt(0))]
        for depth, (layer, rows) in enumerate(own.groupby("layer")):
            label = curve.label if layer in (0, 1) else f"{curve.label}, block {layer}"
            dash = DEEP[min(depth, len(DEEP) - 1)] if curve.dash == (1, 0) else curve.dash
            known.setdefault(label, Curve(label, curve.tone, dash))
            spread = rows.groupby(["line", "x"], sort=False)["y"].agg(["mean", "min", "max", "count"]).reset_index()
            found.append(spread.assign(curve=label))
    if not found:
        return pd.DataFrame(columns=["line", "x", "mean", "min", "max", "count", "curve"]), []
    return pd.concat(found, ignore_index=True), list(known.values())


def bias_panel(points: pd.DataFrame, known: list[Curve], *, title: str, y: str, log: bool = False, near_zero: bool = False) -> Any:
    """One network's curves by the norm of the bias, each with the range over draws as a band.

    `log`: a logarithmic axis of values; `near_zero`: an axis of norms that gives the small ones room.
    """
    import altair as alt

    scales = curve_scales(known)
    room = alt.Scale(type="symlog", constant=0.5, nice=False) if near_zero else alt.Scale(nice=False, zero=True)
    ticks = [x for x in (0, 0.5, 1, 2, 5, 10, 20, 30, 50, 100) if x <= float(points["x"].max())] if near_zero else alt.Undefined
    x = alt.X("x:Q", title="norm of the bias, N", scale=room, axis=alt.Axis(values=ticks, format="~r", grid=True))
    kind = alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False)
    wide = log and points["max"].max() > 100 * points["min"].min()
    marks = alt.Axis(values=decades(points["mean"]), format="~e") if wide else alt.Axis(format="~r", tickCount=6)
    values = points.assign(**{name: short(points[name]) for name in ("x", "mean", "min", "max")})
    base = alt.Chart({"values": records(values, ["curve", "x", "mean", "min", "max", "count"])}).encode(x=x)
    tooltip = [alt.Tooltip("curve:N"), alt.Tooltip("x:Q", title="N"), alt.Tooltip("mean:Q", format=".4g")]
    tooltip += [alt.Tooltip("min:Q", title="least of the draws", format=".4g"), alt.Tooltip("max:Q", title="greatest", format=".4g")]
    tooltip += [alt.Tooltip("count:Q", title="draws")]
    band = base.mark_area(opacity=0.2).encode(y=alt.Y("min:Q", title=y, scale=kind, axis=marks), y2="max:Q", color=scales["color"])
    line = base.mark_line(strokeWidth=1.8).encode(y=alt.Y("mean:Q", title=y, scale=kind, axis=marks), **scales)
    dots = base.mark_point(filled=True, size=18, opacity=1).encode(y=alt.Y("mean:Q", title=y), color=scales["color"], tooltip=tooltip)
    return alt.layer(band, line, dots, title=title)


def bias_figure(table: pd.DataFrame, series: pd.DataFrame, drawn: list[BiasCurve], *, y: str, **look: bool) -> Any:
    """A panel a network; None where the series hold none of these curves."""
    points, known = bias_points(series, drawn)
    panels = [bias_panel(own, known, title=str(line), y=y, **look) for line, own in points.groupby("line", sort=False)]
    return grid(panels, table, columns=3)
