"""Figures 1 to 4 of "Anisotropy Is Inherent to Self-Attention": the cosine of a group's models over their layers.

Published curves are drawn next to models of the same name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import depth_axis, layer_axis, tooltips
from isoscope.charts.different_n import COSINES, choose_cosine, split_by_n
from isoscope.charts.layer_lines import LAYERS, draw_layer_lines
from isoscope.charts.legends import AVERAGE, INK, PAIR, Curve, add_curves, curve_encodings, model_curves
from isoscope.charts.panels import arrange_panels, layer_charts
from isoscope.charts.records import json_records, round_columns, round_digits
from isoscope.core.figure import Figure, figure
from isoscope.core.model_groups import GROUPS, add_groups, add_places
from isoscope.estimation.isotropic_quantiles import one_pair
from isoscope.studies.godey2024.published import published_curves

RECTIFIED = Curve("independent rectified features, 1/π", dash=(8, 3, 2, 3))
HIDDEN = {"hidden": "mean cosine"}
CONVOLUTION_KINDS = {
    "hidden": "one vector per position,",
    "map": "one vector per image,",
    "before_norm": "before the last norm,",
    "after_norm": "after the last norm,",
    "before_activation": "before the last activation,",
    "after_activation": "after the last activation,",
}
"""Kinds of sites with the titles of their panels."""

CURVES = (
    "Mean cosine of two vectors over all pairs, by layer and by depth relative to the whole network; one line per model, with its 95 % "
    "interval; dashed: untrained; hollow diamond: after the final norm."
)
STACKS = " An encoder–decoder is one line: the layers of the encoder, a dotted vertical rule, the layers of the decoder."
PUBLISHED = " Short dashes: published values for a model of that name, read in the authors’ code [code] or off a figure [fig]."
LEVELS = (
    " Under isotropy the average over pairs is 0 (grey line). The dotted level is far more lenient: a single isotropic pair stays below it "
    "in 95 % of cases, at the layer’s d."
)
CONVOLUTION = (
    "Mean cosine by block, one line per network, with its 95 % interval: of one vector per position, of the whole map as one vector per "
    "image, and before and after each block’s last norm and last activation. Unrelated rectified features have a cosine of 1/π, so after "
    "an activation 0 is not the level to compare with."
)


def declare_group(
    name: str, group: str, order: int, caption: str, kinds: Mapping[str, str] = HIDDEN, levels: Mapping[Curve, float] | None = None
) -> Figure:
    """Declare the figure of one group of models; `levels` are drawn as rules in addition to 0, the average under isotropy."""

    def draw(table: pd.DataFrame, series: pd.DataFrame) -> Any:
        return draw_group(table, group, kinds, {AVERAGE: 0.0, **(levels or {})})

    return figure(name=name, title=GROUPS[group], caption=caption + LEVELS, topic="Cosine over the layers", order=order)(draw)


token_models = declare_group("token_models", "token", 1, CURVES + STACKS + PUBLISHED)
character_models = declare_group("character_models", "character", 2, CURVES + STACKS)
speech_models = declare_group("speech_models", "speech", 3, CURVES + STACKS)
vision_models = declare_group("vision_models", "vision", 4, CURVES)
convolutional_models = declare_group("convolutional_models", "convolution", 5, CONVOLUTION, CONVOLUTION_KINDS, {RECTIFIED: 1 / math.pi})


def draw_group(table: pd.DataFrame, group: str, kinds: Mapping[str, str], levels: Mapping[Curve, float]) -> Any:
    """The mean cosine of a group's models by layer, and by relative depth for hidden states and maps; None without such a model."""
    rows = add_groups(add_curves(table))
    rows = rows[rows["group"].eq(group) & rows["metric"].isin(list(COSINES)) & rows["layer"].notna() & rows["head"].isna()]
    rows = rows[rows["kind"].isin([*kinds, "final"]) & rows["value"].notna()]
    metric = choose_cosine(rows, "curve")
    rows = rows[rows["metric"].eq(metric)]
    if not rows["kind"].isin(list(kinds)).any():
        return None
    rows = add_places(rows).drop_duplicates(["curve", "stack", "kind", "layer", "policy"])
    models = model_curves(rows)
    rows = rows.assign(pair=[one_pair(max(int(d), 2)) for d in rows["d"]]).sort_values("place", kind="stable")
    rows = round_columns(rows, "value", "low", "high", "pair", "depth")
    published = place_published(rows)
    tones = {curve.name: curve.tone for curve in models}
    dashed = [Curve(name, tones[model], (2, 2)) for name, model in published[["curve", "of"]].drop_duplicates().to_numpy()]
    curves = [*models, *dashed, *levels, PAIR]
    panels = []
    for kind, title in kinds.items():
        sites = rows[rows["kind"].isin([kind, "final"] if kind == "hidden" else [kind])]
        if not sites["kind"].eq(kind).any():
            continue
        # Sites around a norm or an activation are those of the last stages only, which have no place on an axis of depth.
        places = {"place": "by layer", "depth": "by relative depth"} if kind in ("hidden", "map") else {"place": "by layer"}
        for field, words in places.items():
            for part, part_title in split_by_n(sites, "curve", f"{title} {words}"):
                near = published[published["kind"].eq(kind) & published["of"].isin(part["curve"])]
                panels.append(_group_panel(part, near, field, curves, levels, part_title, COSINES[metric]))
    return arrange_panels(panels, table)


def place_published(rows: pd.DataFrame) -> pd.DataFrame:
    """The published curves of the models in these rows, with the model's curve as `of`; several checkpoints of a model share them."""
    points = []
    for (curve, model), layers in rows[rows["kind"] == "hidden"].groupby(["curve", "model"], sort=False):
        last = max(int(layers["place"].max()), 1)
        for published in published_curves(str(model)):
            where = {"curve": f"{model}: {published.label}", "of": curve, "kind": "hidden"}
            layers_of_curve = enumerate(published.values, published.first)
            points += [where | {"place": place, "depth": place / last, "value": value} for place, value in layers_of_curve]
    return pd.DataFrame(points, columns=["curve", "of", "kind", "place", "depth", "value"]).drop_duplicates(["curve", "place"])


def _group_panel(
    rows: pd.DataFrame, published: pd.DataFrame, field: str, curves: list[Curve], levels: Mapping[Curve, float], title: Any, y_title: str
) -> Any:
    """One panel: levels, bands, models, the seams between stacks, published curves. `field` is `place` or `depth`."""
    scales = curve_encodings(curves)
    tone = {"color": scales["color"]}
    x = layer_axis(field) if field == "place" else depth_axis()
    y = alt.Y("value:Q", title=y_title, scale=alt.Scale(zero=True))
    stack = alt.Detail("stack:N")
    tooltip = tooltips(
        *("curve:N", "stack:N", "kind:N", "layer:Q", "policy:N", "value:Q .4g", "interval:N", "pair:Q .3g", "n:Q", "d:Q"),
        curve="model",
        value=y_title,
        pair="one isotropic pair, 95 %",
    )
    pair = alt.Chart().transform_filter(LAYERS).mark_line(stroke=INK, strokeDash=list(PAIR.dash), strokeWidth=1.2)
    models = draw_layer_lines(
        rows,
        ["curve", "stack", "kind", "layer", "policy", "value", "low", "high", "pair", "n", "d", field],
        x=x,
        y=y,
        tone={**tone, "detail": stack},
        line={"strokeDash": scales["strokeDash"]},
        tooltip=tooltip,
        below=[pair.encode(x=x, y=alt.Y("pair:Q", title=y_title), detail=[alt.Detail("curve:N"), stack])],
        faint=True,
    )
    others = [_stack_seams(rows, field).encode(x=x, **tone)] if rows["seam"].gt(0).any() else []
    if len(published):
        points = alt.Chart({"values": json_records(round_columns(published, "depth"), ["curve", field, "value"])}).encode(x=x, y=y)
        near = tooltips("curve:N", f"{field}:Q .3g", "value:Q", curve="published", value=y_title)
        others += [
            points.mark_line(strokeWidth=1.4).encode(**scales),
            points.mark_point(size=14, strokeWidth=1).encode(**tone, tooltip=near),
        ]
    rules = [
        alt.Chart({"values": [{"value": level}]}).mark_rule(stroke=curve.tone, strokeDash=list(curve.dash), opacity=0.8).encode(y=y)
        for curve, level in levels.items()
    ]
    return layer_charts(*rules, models, *others, title=title)


def _stack_seams(rows: pd.DataFrame, field: str) -> Any:
    """A rule where a model's second stack begins, halfway between the last layer of the first stack and the first of the second."""
    # `seam` counts places; one place is depth / place wide on an axis of depth.
    first = rows[rows["seam"] > 0].drop_duplicates(["curve", "stack"])
    step = first["depth"] / first["place"] if field == "depth" else 1.0
    marks = first.assign(**{field: round_digits((first["seam"] - 0.5) * step)})
    return alt.Chart({"values": json_records(marks, ["curve", "stack", field])}).mark_rule(strokeDash=[2, 3], opacity=0.7)
