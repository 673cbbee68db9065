"""Queries and keys of chosen heads on components that are common to all steps of a training: clouds, and the paths of their means."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from isoscope.core.group import first_seed
from isoscope.drawing import INK, PALETTE, PANEL, Curve, curve_scales, grid, layered, records, short
from isoscope.drawing.training import evenly, over_training

KINDS = {"query": Curve("queries", PALETTE[0]), "key": Curve("keys", PALETTE[1])}
CHOSEN = {"same_direction": "same direction", "opposite_direction": "opposite directions"}
"""The metrics that name the two heads that are drawn."""
STEPS = 4
"""So many steps have a panel."""
MOMENTS = 16
"""So many steps can be chosen where one is shown at a time."""
NOW, SO_FAR = "datum.step == step", "datum.step <= step"
"""Filters by the parameter `step`, which the page's slider sets; a print file shows its first value."""
SPARE = 0.1
"""Room around the points, as a part of the axis."""
TALL = 300
HEAD = ["model", "stack", "layer", "head"]


@dataclass(frozen=True)
class Chosen:
    """A head that is drawn: where it is, how a title calls it, and the cosine of its means."""

    site: dict[str, Any]
    title: tuple[str, ...]
    cosine: str
    """In words, with a remark where it is no larger than chance makes it."""

    def of(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Its own among these rows."""
        same = [rows[name].eq(value) if not pd.isna(value) else rows[name].isna() for name, value in self.site.items()]
        return rows[pd.concat(same, axis=1).all(axis=1)]


def chosen_heads(table: pd.DataFrame) -> list[Chosen]:
    """The heads that the table names, of each suite the one whose means go the same way before the one whose means go opposite ways."""
    rows = table[table["metric"].isin(list(CHOSEN)) & table["head"].notna()]
    several = len(rows["model"].unique()) > 1
    found = []
    for _, own in rows.groupby("model", sort=False):
        for metric, name in CHOSEN.items():
            for row in own[own["metric"].eq(metric)].to_dict("records"):
                title = f"{name}: layer {row['layer']}, head {row['head']}"
                before = (str(row["model"]),) if several else ()
                found.append(Chosen({key: row[key] for key in HEAD}, (*before, title), _cosine(row, table)))
    return found


def _cosine(row: dict[Hashable, Any], table: pd.DataFrame) -> str:
    level = table.loc[table["metric"].eq("qk_chance") & table["model"].eq(row["model"]) & table["stack"].eq(row["stack"]), "value"]
    remark = ", within chance" if len(level) and abs(row["value"]) < level.iloc[0] else ""
    return f"cosine {row['value']:.2f} at the end{remark}".replace("-", "−")


def projected(table: pd.DataFrame, series: pd.DataFrame, name: str) -> list[tuple[Chosen, pd.DataFrame]]:
    """The chosen heads with their points of this series, of the first seed."""
    rows = series[series["name"].eq(name) & series["kind"].isin(list(KINDS)) & series["x"].notna() & series["y"].notna()]
    rows = first_seed(over_training(rows))
    rows = rows.assign(curve=rows["kind"].map({kind: curve.name for kind, curve in KINDS.items()}), x=short(rows["x"]), y=short(rows["y"]))
    return [(head, own) for head in chosen_heads(table) if len(own := head.of(rows))]


def clouds(table: pd.DataFrame, series: pd.DataFrame, basis: str) -> Any:
    """Sampled queries and keys at a few steps, a row of panels a head; within a row all panels have the same axes."""
    means = {head.title: own for head, own in projected(table, series, f"mean_in_{basis}")}
    panels = []
    for head, own in projected(table, series, f"cloud_in_{basis}"):
        path = means.get(head.title, own.iloc[:0])
        axes = _axes(pd.concat([own, path]))
        for step in evenly(own["step"], STEPS):
            here, so_far = own[own["step"].eq(step)], path[path["step"].le(step)]
            panels.append(_cloud(here, so_far, axes, [*head.title, f"step {step:,}"]))
    return grid(panels, table, columns=STEPS)


def paths(table: pd.DataFrame, series: pd.DataFrame, basis: str) -> Any:
    """The path of mean query and mean key, a panel a head and a dot a checkpoint."""
    panels = [_path(own, head) for head, own in projected(table, series, f"mean_in_{basis}")]
    return grid(panels, table, height=TALL)


def motion(table: pd.DataFrame, series: pd.DataFrame, bases: dict[str, str]) -> Any:
    """The cloud of one step and the path of its means so far, a panel a head and basis; `step` is the last unless a reader chooses."""
    import altair as alt

    found: dict[tuple[str, ...], list[Any]] = {}
    steps: list[int] = []
    for basis, words in bases.items():
        means = {head.title: own for head, own in projected(table, series, f"mean_in_{basis}")}
        for head, own in projected(table, series, f"cloud_in_{basis}"):
            steps = steps or [int(step) for step in evenly(own["step"], MOMENTS)]
            path, shown = means.get(head.title, own.iloc[:0]), own[own["step"].isin(steps)]
            axes = _axes(pd.concat([shown, path]), TALL)
            found.setdefault(head.title, []).append(_moving(shown, path, axes, [*head.title, words]))
    whole = grid([panel for panels in found.values() for panel in panels], table, columns=len(bases), height=TALL)
    if whole is not None:
        whole.params = [*whole.params, alt.VariableParameter(name="step", value=steps[-1])]
        whole.usermeta = {"steps": steps}
    return whole


def _axes(rows: pd.DataFrame, height: int = PANEL[1]) -> dict[str, Any]:
    """Two axes with room for all of these points and for the origin, and with the same unit, so that directions are what they seem."""
    import altair as alt

    ends = {name: (min(0.0, float(rows[name].min())), max(0.0, float(rows[name].max()))) for name in ("x", "y")}
    unit = max((ends["x"][1] - ends["x"][0]) / PANEL[0], (ends["y"][1] - ends["y"][0]) / height, 1e-9) * (1 + 2 * SPARE)

    def axis(name: str, title: str, pixels: int) -> Any:
        middle = sum(ends[name]) / 2
        scale = alt.Scale(domain=short(pd.Series([middle - unit * pixels / 2, middle + unit * pixels / 2])), nice=False)
        return {"shorthand": f"{name}:Q", "title": title, "scale": scale, "axis": alt.Axis(tickCount=5, format="~r")}

    return {"x": alt.X(**axis("x", "first component", PANEL[0])), "y": alt.Y(**axis("y", "second component", height))}


def _origin(axes: dict[str, Any]) -> Any:
    import altair as alt

    return alt.Chart({"values": [{"x": 0, "y": 0}]}).mark_point(shape="cross", size=90, filled=True, color=INK).encode(**axes)


def _line(path: pd.DataFrame, axes: dict[str, Any]) -> Any:
    import altair as alt

    rows = path.sort_values(["kind", "step"])
    line = alt.Chart({"values": records(rows, ["curve", "step", "x", "y"])}).mark_line(strokeWidth=1.4, opacity=0.8)
    return line.encode(**axes, **curve_scales(list(KINDS.values())), order=alt.Order("step:Q"))


def _cloud(here: pd.DataFrame, path: pd.DataFrame, axes: dict[str, Any], title: list[str]) -> Any:
    import altair as alt

    tone = curve_scales(list(KINDS.values()), dashed=False)
    points = alt.Chart({"values": records(here, ["curve", "x", "y"])}).mark_point(filled=True, size=14, opacity=0.5)
    now = path[path["step"].eq(path["step"].max())]
    mean = alt.Chart({"values": records(now, ["curve", "x", "y"])}).mark_point(
        filled=True, size=90, opacity=1, stroke="white", strokeWidth=1
    )
    return layered(points.encode(**axes, **tone), _origin(axes), _line(path, axes), mean.encode(**axes, **tone), title=title)


def _moving(cloud: pd.DataFrame, path: pd.DataFrame, axes: dict[str, Any], title: list[str]) -> Any:
    import altair as alt

    tone = curve_scales(list(KINDS.values()), dashed=False)
    tooltip = [alt.Tooltip("curve:N", title="mean of"), alt.Tooltip("step:Q", format=","), alt.Tooltip("x:Q"), alt.Tooltip("y:Q")]
    points = alt.Chart({"values": records(cloud, ["curve", "step", "x", "y"])}).transform_filter(NOW)
    points = points.mark_point(filled=True, size=14, opacity=0.5)
    mean = alt.Chart({"values": records(path, ["curve", "step", "x", "y"])}).transform_filter(NOW)
    mean = mean.mark_point(filled=True, size=90, opacity=1, stroke="white", strokeWidth=1)
    line = _line(path, axes).transform_filter(SO_FAR)
    return layered(points.encode(**axes, **tone), _origin(axes), line, mean.encode(**axes, **tone, tooltip=tooltip), title=title)


def _path(path: pd.DataFrame, head: Chosen) -> Any:
    import altair as alt

    axes = _axes(path, TALL)
    tone = curve_scales(list(KINDS.values()), dashed=False)
    last = int(path["step"].max())
    tooltip = [alt.Tooltip("curve:N", title="mean of"), alt.Tooltip("step:Q", format=","), alt.Tooltip("x:Q"), alt.Tooltip("y:Q")]
    rows = alt.Chart({"values": records(path, ["curve", "step", "x", "y"])})
    dots = rows.transform_filter(f"datum.step < {last}").mark_point(filled=True, size=26, opacity=1)
    end = rows.transform_filter(f"datum.step == {last}").mark_point(filled=True, size=110, opacity=1)
    word = rows.transform_filter(f"datum.step == {last}").mark_text(dy=-12, fontSize=11).encode(text=alt.value(f"step {last:,}"))
    drawn = [mark.encode(**axes, **tone, tooltip=tooltip) for mark in (dots, end)]
    held = path["weight"].dropna()
    share = [f"components hold {100 * held.iloc[-1]:.0f} % of second moment"] if len(held) else []
    title = [*head.title, head.cosine, *share]
    return layered(_origin(axes), _line(path, axes), *drawn, word.encode(**axes, **tone), title=title)
