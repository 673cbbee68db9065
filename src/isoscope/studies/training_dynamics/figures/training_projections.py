"""Figures 11, 12 and 19 to 22 of "Anisotropy Is Inherent to Self-Attention": queries and keys of two heads over a training.

All steps of a training are projected on the same two components: of queries and keys together, of the keys, or of the queries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import tooltips
from isoscope.charts.legends import BLUE, INK, ORANGE, Curve, curve_encodings
from isoscope.charts.panels import PANEL, arrange_panels, layer_charts
from isoscope.charts.records import json_records, pick_evenly, round_columns, round_digits
from isoscope.core.figure import Figure, figure
from isoscope.core.model_groups import select_first_seed
from isoscope.studies.training_dynamics.step_charts import select_checkpoints

KINDS = {"query": Curve("queries", BLUE), "key": Curve("keys", ORANGE)}
SHOWN_HEADS = {"same_direction": "same direction", "opposite_direction": "opposite directions"}
"""The metrics that name the two heads that are drawn."""
BASES = {"union": "components of both", "key": "components of the keys", "query": "components of the queries"}
CLOUD_STEPS = 4
"""The number of steps that have a panel."""
SLIDER_STEPS = 16
"""The number of steps that a slider goes through."""
AT_STEP, UP_TO_STEP = "datum.step == step", "datum.step <= step"
"""Filters by the parameter `step`, which the page's slider sets; a print file shows its first value."""
MARGIN = 0.1
"""Room around the points, as a part of the axis."""
TALL = 300
HEAD = ["model", "stack", "layer", "head"]
MEAN_FIELDS = ("curve:N", "step:Q", "x:Q", "y:Q")
"""The tooltip of a mean."""


@dataclass(frozen=True)
class ShownHead:
    """A head that is drawn: its site, its name in a title, and the cosine of its means in words."""

    site: dict[str, Any]
    title: tuple[str, ...]
    cosine: str
    """With a remark if chance alone makes it as large."""

    def select(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows of this head."""
        same = [rows[name].eq(value) if not pd.isna(value) else rows[name].isna() for name, value in self.site.items()]
        return rows[pd.concat(same, axis=1).all(axis=1)]


def shown_heads(table: pd.DataFrame) -> list[ShownHead]:
    """The heads that the table names: for each suite first the head whose means end in the same direction, then the opposite head."""
    rows = table[table["metric"].isin(list(SHOWN_HEADS)) & table["head"].notna()]
    several = len(rows["model"].unique()) > 1
    heads = []
    for model, suite in rows.groupby("model", sort=False):
        for metric, direction in SHOWN_HEADS.items():
            for row in suite[suite["metric"].eq(metric)].to_dict("records"):
                title = f"{direction}: layer {row['layer']}, head {row['head']}"
                suite_name = (str(model),) if several else ()
                heads.append(ShownHead({key: row[key] for key in HEAD}, (*suite_name, title), _cosine_words(row, table)))
    return heads


def _cosine_words(row: dict[Hashable, Any], table: pd.DataFrame) -> str:
    level = table.loc[table["metric"].eq("qk_chance") & table["model"].eq(row["model"]) & table["stack"].eq(row["stack"]), "value"]
    remark = ", within chance" if len(level) and abs(row["value"]) < level.iloc[0] else ""
    return f"cosine {row['value']:.2f} at the end{remark}".replace("-", "−")


def project_heads(table: pd.DataFrame, series: pd.DataFrame, name: str) -> list[tuple[ShownHead, pd.DataFrame]]:
    """The shown heads with their points of this series, in the first seed."""
    rows = series[series["name"].eq(name) & series["kind"].isin(list(KINDS)) & series["x"].notna() & series["y"].notna()]
    rows = select_first_seed(select_checkpoints(rows))
    rows = round_columns(rows.assign(curve=rows["kind"].map({kind: curve.name for kind, curve in KINDS.items()})), "x", "y")
    return [(head, points) for head in shown_heads(table) if len(points := head.select(rows))]


def draw_clouds(table: pd.DataFrame, series: pd.DataFrame, basis: str) -> Any:
    """Sampled queries and keys at a few steps: one row of panels per head, with the same axes in the whole row."""
    paths = {head.title: path for head, path in project_heads(table, series, f"mean_in_{basis}")}
    panels = []
    for head, cloud in project_heads(table, series, f"cloud_in_{basis}"):
        path = paths.get(head.title, cloud.iloc[:0])
        axes = _equal_axes(pd.concat([cloud, path]))  # of all steps, so that panels of a head can be compared
        for step in pick_evenly(cloud["step"], CLOUD_STEPS):
            past = path[path["step"].le(step)]
            title = [*head.title, f"step {step:,}"]
            points, means = _chart_points(cloud[cloud["step"].eq(step)]), _chart_points(past[past["step"].eq(past["step"].max())])
            panels.append(_cloud_panel(points, _path_line(past, axes), means, axes, title))
    return arrange_panels(panels, table, columns=CLOUD_STEPS)


def draw_paths(table: pd.DataFrame, series: pd.DataFrame, basis: str) -> Any:
    """The paths of mean query and mean key: one panel per head, one dot per checkpoint."""
    panels = [_path_panel(path, head) for head, path in project_heads(table, series, f"mean_in_{basis}")]
    return arrange_panels(panels, table, height=TALL)


@figure(
    title="Figure 11: queries and keys move in training",
    caption="A dot is the query or the key of one token at a step of the first seed, on two components that are the same at every step: "
    "the first two singular vectors, without centring, of queries and keys of all steps together. The large dot is the mean, the line its "
    "path so far, the grey cross the origin. The two heads are those whose means end most in the same direction and most in opposite "
    "directions; all panels of a head have the same axes.",
    order=2,
    over_steps=True,
)
def training_clouds(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One row of panels per head, one panel per step."""
    return draw_clouds(table, series, "union")


@figure(
    title="Figures 12a and 12b: the paths of mean query and mean key",
    caption="The mean query and the mean key of a head on two components that are the same at every step: the first two singular vectors, "
    "without centring, of queries and keys of all steps together. A dot is a checkpoint of the first seed, the largest the last one; the "
    "grey cross is the origin. Left (12a): the head whose means end most in the same direction. Right (12b): the head whose means end most "
    "in opposite directions.",
    order=3,
    over_steps=True,
)
def training_paths(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel per head."""
    return draw_paths(table, series, "union")


def declare_side(
    kind: str, draw: Callable[[pd.DataFrame, pd.DataFrame, str], Any], side: str, number: int, order: int, caption: str
) -> Figure:
    """Declare a figure on the components of one side alone: `keys` or `queries`. The caption names this side {0} and the other {1}."""
    basis, other = {"keys": ("key", "queries"), "queries": ("query", "keys")}[side]

    def draw_side(table: pd.DataFrame, series: pd.DataFrame) -> Any:
        return draw(table, series, basis)

    title, caption = f"Figure {number}: {kind} on the components of the {side} alone", caption.format(side, other)
    return figure(name=f"training_{kind}_{side}", title=title, caption=caption, order=order, over_steps=True)(draw_side)


AS_FIGURE_11 = (
    "As Figure 11, but on the first two components of the {0} of all steps, which are computed without the {1}. If the {1} drift along "
    "them too, the drifts agree for another reason than the choice of components."
)
AS_FIGURE_12 = (
    "As Figures 12a and 12b, but on the first two components of the {0} of all steps. If the {1} drift along them too, the components of "
    "the {0} describe the drift of the {1}."
)
training_clouds_keys = declare_side("clouds", draw_clouds, "keys", 19, 12, AS_FIGURE_11)
training_clouds_queries = declare_side("clouds", draw_clouds, "queries", 20, 13, AS_FIGURE_11)
training_paths_keys = declare_side("paths", draw_paths, "keys", 21, 14, AS_FIGURE_12)
training_paths_queries = declare_side("paths", draw_paths, "queries", 22, 15, AS_FIGURE_12)


@figure(
    title="Queries and keys, step by step",
    caption="The queries and keys of a few tokens at one step of the first seed, on two components that are the same at every step: of "
    "queries and keys together, of the keys alone, of the queries alone. The large dot is the mean, the line its path so far, the grey "
    "cross the origin. The axes of a panel stay the same while the step changes. A print file shows the last step.",
    order=1,
    over_steps=True,
)
def training_motion(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Figures 11, 19 and 20 with a slider: one row of panels per head, one panel per basis."""
    panels: dict[tuple[str, ...], list[Any]] = {}
    steps: list[int] = []
    for basis, words in BASES.items():
        paths = {head.title: path for head, path in project_heads(table, series, f"mean_in_{basis}")}
        for head, cloud in project_heads(table, series, f"cloud_in_{basis}"):
            steps = steps or [int(step) for step in pick_evenly(cloud["step"], SLIDER_STEPS)]
            path, cloud = paths.get(head.title, cloud.iloc[:0]), cloud[cloud["step"].isin(steps)]
            axes = _equal_axes(pd.concat([cloud, path]), TALL)
            points, means = (_chart_points(rows, "step").transform_filter(AT_STEP) for rows in (cloud, path))
            line, tooltip = _path_line(path, axes).transform_filter(UP_TO_STEP), tooltips(*MEAN_FIELDS, curve="mean of")
            panel = _cloud_panel(points, line, means, axes, [*head.title, words], tooltip=tooltip)
            panels.setdefault(head.title, []).append(panel)
    chart = arrange_panels([panel for row in panels.values() for panel in row], table, columns=len(BASES), height=TALL)
    if chart is not None:
        chart.params = [*chart.params, alt.VariableParameter(name="step", value=steps[-1])]
        chart.usermeta = {"steps": steps}
    return chart


@figure(
    title="Which components carry the drift",
    caption="The coordinates of the mean query and the mean key at the last step, for the two heads of Figure 11, on the first components "
    "of all steps: of queries and keys together, of the keys alone, of the queries alone. If one component carries both drifts in all "
    "three cases, the two means lie along one direction, whichever of them defines it.",
    order=16,
    over_steps=True,
)
def training_components(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Appendix C in numbers: one row of panels per head, one panel per basis."""
    points = {(head.title, basis): means for basis in BASES for head, means in project_heads(table, series, f"mean_along_{basis}")}
    heads = dict.fromkeys(title for title, _ in points)
    places = [(head, basis) for head in heads for basis in BASES if (head, basis) in points]
    panels = [_components_panel(points[head, basis], [*head, BASES[basis]]) for head, basis in places]
    return arrange_panels(panels, table, columns=len(BASES))


def _equal_axes(rows: pd.DataFrame, height: int = PANEL[1]) -> dict[str, Any]:
    """Two axes with room for all points and the origin, and with the same unit, so that angles are not distorted."""
    # The panel is wider than it is high: the axis that needs more room per pixel sets the unit of both.
    ends = {name: (min(0.0, float(rows[name].min())), max(0.0, float(rows[name].max()))) for name in ("x", "y")}
    unit = max((ends["x"][1] - ends["x"][0]) / PANEL[0], (ends["y"][1] - ends["y"][0]) / height, 1e-9) * (1 + 2 * MARGIN)

    def axis_options(name: str, title: str, pixels: int) -> Any:
        middle = sum(ends[name]) / 2
        scale = alt.Scale(domain=round_digits(pd.Series([middle - unit * pixels / 2, middle + unit * pixels / 2])), nice=False)
        return {"shorthand": f"{name}:Q", "title": title, "scale": scale, "axis": alt.Axis(tickCount=5, format="~r")}

    return {"x": alt.X(**axis_options("x", "first component", PANEL[0])), "y": alt.Y(**axis_options("y", "second component", height))}


def _chart_points(rows: pd.DataFrame, *columns: str) -> Any:
    return alt.Chart({"values": json_records(rows, ["curve", *columns, "x", "y"])})


def _origin_mark(axes: dict[str, Any]) -> Any:
    return alt.Chart({"values": [{"x": 0, "y": 0}]}).mark_point(shape="cross", size=90, filled=True, color=INK).encode(**axes)


def _path_line(path: pd.DataFrame, axes: dict[str, Any]) -> Any:
    line = _chart_points(path.sort_values(["kind", "step"]), "step").mark_line(strokeWidth=1.4, opacity=0.8)
    return line.encode(**axes, **curve_encodings(list(KINDS.values())), order=alt.Order("step:Q"))


def _cloud_panel(cloud: Any, line: Any, mean: Any, axes: dict[str, Any], title: list[str], **encodings: Any) -> Any:
    """The points of a cloud, the origin, the path of the means as a line, and the means; `encodings` are more encodings of the means."""
    encoded = axes | curve_encodings(list(KINDS.values()), dashed=False)
    points = cloud.mark_point(filled=True, size=14, opacity=0.5).encode(**encoded)
    means = mean.mark_point(filled=True, size=90, opacity=1, stroke="white", strokeWidth=1).encode(**encoded, **encodings)
    return layer_charts(points, _origin_mark(axes), line, means, title=title)


def _path_panel(path: pd.DataFrame, head: ShownHead) -> Any:
    """The path of both means of a head, the last step named, with the share of the second moment that the two components hold."""
    axes = _equal_axes(path, TALL)
    encoded = axes | curve_encodings(list(KINDS.values()), dashed=False)
    last = int(path["step"].max())
    points = _chart_points(path, "step")
    at_end = points.transform_filter(f"datum.step == {last}")
    dots = points.transform_filter(f"datum.step < {last}").mark_point(filled=True, size=26, opacity=1)
    end = at_end.mark_point(filled=True, size=110, opacity=1)
    text = at_end.mark_text(dy=-12, fontSize=11).encode(text=alt.value(f"step {last:,}"), **encoded)
    shares = path["weight"].dropna()
    words = [f"components hold {100 * shares.iloc[-1]:.0f} % of second moment"] if len(shares) else []
    marks = [mark.encode(**encoded, tooltip=tooltips(*MEAN_FIELDS, curve="mean of")) for mark in (dots, end)]
    return layer_charts(_origin_mark(axes), _path_line(path, axes), *marks, text, title=[*head.title, head.cosine, *words])


def _components_panel(points: pd.DataFrame, title: list[str]) -> Any:
    """The coordinates of both means on the components of one basis, at the last step."""
    last = points[points["step"].eq(points["step"].max())]
    base = _chart_points(last.assign(x=last["x"].astype(int)))
    side = alt.XOffset("curve:N", scale=alt.Scale(domain=[curve.name for curve in KINDS.values()]))
    x = alt.X("x:O", title="component", axis=alt.Axis(labelAngle=0))
    scales = curve_encodings(list(KINDS.values()))
    y = alt.Y("y:Q", title="coordinate of the mean")
    tooltip = tooltips("curve:N", "x:O", "y:Q .4g", curve="mean of", x="component")
    stems = base.mark_rule(strokeWidth=2).encode(x=x, xOffset=side, y=y, y2=alt.datum(0), **scales)
    dots = base.mark_point(filled=True, size=40, opacity=1).encode(x=x, xOffset=side, y=y, color=scales["color"], tooltip=tooltip)
    return layer_charts(stems, dots, title=title)
