"""What figures share: labels and colours of lines, axes, panels, legends.

A figure of several panels returns a plain `alt.concat`, so that a print file gets one sheet and a page can lay the same panels
out by its own width. Every chart carries the parameter `policy`: the page sets it, a print file shows its first value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from isoscope.core.group import UNTRAINED
from isoscope.core.token_slices import POLICIES

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


def layered(*charts: Any, **properties: Any) -> Any:
    """Charts over each other, with the data and the title they share."""
    from isoscope.drawing.composed import layers

    return layers(charts, **properties)


def labelled(table: pd.DataFrame, series: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables with a column `line`: the model's name, and as much of revision, step, seed and stack as tells lines apart."""
    keys = pd.concat([frame[LINE_COLUMNS] for frame in (table, series)], ignore_index=True)
    number = keys.groupby(LINE_COLUMNS, dropna=False, sort=False).ngroup()
    firsts = keys[~number.duplicated()].astype("string").fillna("")
    known = [tuple(map(str, row)) for row in firsts.to_numpy()]
    seen = {(model, i): len({row[i] for row in known if row[0] == model}) for model, *_ in known for i in range(len(LINE_COLUMNS))}
    names = []
    for row in known:
        model, revision, *rest = (word if i == 0 or seen[row[0], i] > 1 else "" for i, word in enumerate(row))
        words = [f"{model}@{revision}" if revision else model]
        words += [f"{prefix}{word}" for prefix, word in zip(("step ", "seed ", ""), rest, strict=True) if word]
        names.append(" · ".join(words))
    line = pd.Series(names, dtype="string").reindex(number)
    parts = line.iloc[: len(table)], line.iloc[len(table) :]
    first, second = (frame.assign(line=part.set_axis(frame.index)) for frame, part in zip((table, series), parts, strict=True))
    return first, second


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
    finite = values[np.isfinite(values.astype("float64")) & (values > 0)]
    if finite.empty:
        return [1.0]
    low, high = math.floor(math.log10(finite.min())), math.ceil(math.log10(finite.max()))
    return [10.0**power for power in range(low, high + 1)]


def grid(panels: list[Any], table: pd.DataFrame, *, columns: int = 2, own_colours: bool = False, height: int = PANEL[1]) -> Any:
    """Panels of equal size as one chart that knows the token policies of the table; None where there is no panel.

    `own_colours`: each panel has a colour scale, and so a legend, of its own.
    """
    import altair as alt

    from isoscope.drawing.composed import sheet

    if not panels:
        return None
    # Set on the finished chart: Altair's own methods copy every panel at every step, which takes seconds for twenty of them.
    for panel in panels:
        panel.width, panel.height = PANEL[0], height
    scale = alt.ScaleResolveMap(color="independent") if own_colours else alt.ScaleResolveMap(color="shared", strokeDash="shared")
    whole = panels[0] if len(panels) == 1 else sheet(panels, columns=columns, resolve=alt.Resolve(scale=scale))
    whole.params = [alt.VariableParameter(name="policy", value=policies(table)[0])]
    return whole


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
