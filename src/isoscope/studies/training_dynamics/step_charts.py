"""Numbers over the steps of a training: lines by layer, head or seed, the range over seeds, and the level of chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import step_axis, tooltips
from isoscope.charts.different_n import Title
from isoscope.charts.legends import INK
from isoscope.charts.panels import layer_charts, policy_filter
from isoscope.charts.records import json_records, label_lines, round_columns
from isoscope.core.model_groups import list_suites, select_first_seed
from isoscope.trust.safe_io import parse_object


def select_checkpoints(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of checkpoints of suites, with the column `line` of `label_suites`."""
    return label_suites(rows[rows["model"].isin(list_suites(rows)) & rows["step"].notna()])


def label_suites(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the column `line`: the model's name whatever the checkpoint, and its stack if it has several."""
    return rows.assign(line=label_lines(rows.assign(revision=None, step=None, seed=None))[0]["line"])


def suite_title(line: str, words: str, rows: pd.DataFrame) -> list[str]:
    """The title of a panel; it names the suite only if the figure shows several."""
    return [words] if len(rows["line"].unique()) == 1 else [line, words]


def read_verdict(spec: object) -> str:
    """The verdict of a test, from the `spec` of its row.

    >>> read_verdict('{"verdict": "holds"}'), read_verdict(None)
    ('holds', 'undecided')
    """
    return str(parse_object(spec).get("verdict", "undecided"))


def add_seed_look(rows: pd.DataFrame, other: str = "thin") -> pd.DataFrame:
    """Rows with the column `look`: `strong` for the first seed, `points` for seeds with few steps, `other` for the rest.

    A line through the first and the last step alone would claim something about the steps between them.
    """
    first = rows.index.isin(select_first_seed(rows).index)
    steps = rows.groupby([rows["model"], rows["seed"].fillna(-1)])["step"].transform("nunique")
    few = steps * 2 < steps.groupby(rows["model"]).transform("max")
    return rows.assign(look=np.where(first, "strong", np.where(few, "points", other)))


def seed_range(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """The least and the greatest value over seeds, as `least` and `greatest`, at steps that at least two seeds have."""
    ranges = rows.groupby([by, "policy", "step"], dropna=False)["value"].agg(["min", "max", "count"]).reset_index()
    return ranges[ranges["count"] > 1].rename(columns={"min": "least", "max": "greatest"})


def step_panel(
    rows: pd.DataFrame,
    *,
    title: Title,
    y: str,
    by: str,
    colours: dict[str, Any],
    chance: pd.DataFrame | None = None,
    seeds: pd.DataFrame | None = None,
    dashed: str | None = None,
    domain: list[float] | None = None,
) -> Any:
    """One panel of lines over steps: one line per value of the column `by`, and per seed as `add_seed_look` marks it.

    Args:
        colours: the encodings of colour.
        chance: `low` and `high` by step, drawn in grey.
        seeds: `least` and `greatest` by step and `by`, as `seed_range` gives them.
        dashed: a second column of numbers, drawn dashed in the colours of the lines.
        domain: the ends of the vertical axis.
    """
    numbers = ["value", *([dashed] if dashed else [])]
    rows = rows.assign(look="strong") if "look" not in rows else rows
    rows = round_columns(rows.sort_values([by, "step"], kind="stable"), *numbers)
    # An axis around one number would have no height, so it then starts at 0.
    scale = alt.Scale(domain=domain) if domain else alt.Scale(zero=bool(rows["value"].min() == rows["value"].max()))
    x, vertical = alt.X(**step_axis(rows["step"])), {"title": y, "scale": scale}
    tooltip = tooltips(f"{by}:N", "step:Q", "seed:N", "value:Q .4g", value=y)
    base = alt.Chart({"values": json_records(rows, [by, "step", "seed", "policy", "look", *numbers])})
    base = base.transform_filter(policy_filter(rows)).encode(x=x, detail=[alt.Detail(f"{by}:N"), alt.Detail("seed:N")])
    strong, thin, points = (base.transform_filter(f"datum.look == '{word}'") for word in ("strong", "thin", "points"))
    value, tone = alt.Y("value:Q", **vertical), {"color": colours["color"]}
    layers = [] if chance is None else _chance_band(chance, x, vertical)
    if seeds is not None and len(seeds):
        layers.append(_seed_band(seeds, by, x, vertical, tone, every_step=set(rows["step"]) <= set(seeds["step"])))
    if dashed:
        layers.append(strong.mark_line(strokeWidth=1, strokeDash=[5, 3], opacity=0.8).encode(y=alt.Y(f"{dashed}:Q", **vertical), **tone))
    if rows["look"].eq("thin").any():
        layers.append(thin.mark_line(strokeWidth=0.8, opacity=0.45).encode(y=value, **tone))
    if rows["look"].eq("points").any():
        layers.append(points.mark_point(filled=False, size=24, strokeWidth=1.2, opacity=0.8).encode(y=value, **tone, tooltip=tooltip))
    layers.append(strong.mark_line(strokeWidth=1.6).encode(y=value, **colours))
    layers.append(strong.mark_point(filled=True, size=16, opacity=1).encode(y=value, **tone, tooltip=tooltip))
    return layer_charts(*layers, title=title)


def _chance_band(levels: pd.DataFrame, x: Any, vertical: dict[str, Any]) -> list[Any]:
    """The values that chance stays within, as a grey band with dotted edges."""
    levels = round_columns(levels.sort_values("step"), "low", "high")
    base = alt.Chart({"values": json_records(levels, ["step", "policy", "low", "high"])}).encode(x=x)
    base = base.transform_filter(policy_filter(levels))
    edge = base.mark_line(stroke=INK, strokeDash=[2, 3], strokeWidth=1)
    band = base.mark_area(opacity=0.1, color=INK).encode(y=alt.Y("low:Q", **vertical), y2=alt.Y2("high:Q"))
    return [band, *(edge.encode(y=alt.Y(f"{end}:Q", **vertical)) for end in ("low", "high"))]


def _seed_band(seeds: pd.DataFrame, by: str, x: Any, vertical: dict[str, Any], tone: dict[str, Any], *, every_step: bool) -> Any:
    """The range over seeds: a band if every step has several seeds, else one bar at each step that has."""
    seeds = round_columns(seeds.sort_values([by, "step"]), "least", "greatest")
    base = alt.Chart({"values": json_records(seeds, [by, "step", "policy", "least", "greatest"])}).transform_filter(policy_filter(seeds))
    mark = base.mark_area(opacity=0.18) if every_step else base.mark_rule(opacity=0.5, strokeWidth=3)
    return mark.encode(x=x, y=alt.Y("least:Q", **vertical), y2=alt.Y2("greatest:Q"), detail=alt.Detail(f"{by}:N"), **tone)
