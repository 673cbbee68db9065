"""The first screen: a row a model, the few numbers that matter, and a small curve of each over the layers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from isoscope.core.number import THIS_N, same_n
from isoscope.report.line import Line, place, share, show, span

WIDTH, HEIGHT, EDGE = 96, 26, 3
"""The size of a small curve in pixels, and the room around it."""


@dataclass(frozen=True)
class Spark:
    """A small curve: its points as SVG wants them, the dot on it, and what it shows in words."""

    points: str
    dot: tuple[float, float] | None
    said: str


@dataclass(frozen=True)
class Cell:
    """One number of one model, what stands below it, and its curve over the layers."""

    text: str = ""
    below: str = ""
    spark: Spark | None = None


@dataclass(frozen=True)
class Row:
    """One model: what it is, and a cell a column."""

    name: str
    about: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Column:
    """A number of the overview: its heading, what is said below it, and which of the layers it is taken from."""

    title: str
    hint: str
    metric: str
    least: bool = False
    """Whether the layer with the least is the one that is spoken of, not that with the greatest."""
    heads: bool = False
    """Whether it is a number of heads, of which the mean over all is spoken of."""
    part_of_d: bool = False


COLUMNS = (
    Column("Cosine", "greatest, between items", "cosine"),
    Column("Drift ratio", "greatest", "drift_ratio"),
    Column("Top share", "greatest", "top_share"),
    Column("Effective rank", "least, of d", "effective_rank", least=True, part_of_d=True),
    Column("Intrinsic dimension", "greatest, TwoNN", "two_nn"),
    Column("Attention entropy", "mean of heads, 1 is uniform", "attention_entropy_normalised", heads=True),
    Column("Sinks", "attention on the first position", "sink_mass", heads=True),
)


def overview(lines: list[Line]) -> tuple[list[Column], list[Row]]:
    """A row a model that has a cosine, and the columns that any of them fills.

    Curves of one column have one scale; not so where the number depends on n and models have different n, which its heading says.
    """
    peaks = {line.name: peak for line in lines if (peak := line.peak()) is not None}
    shown = [line for line in lines if line.name in peaks]
    filled: list[tuple[Column, list[Cell]]] = []
    for given in COLUMNS:
        column = given
        curves = [values(line, column) for line in shown]
        known = [frame for frame in curves if len(frame)]
        if known:
            scales = [known] * len(curves)
            if n_differs(known):
                column, scales = replace(column, hint=f"{column.hint}; n differs: do not compare rows"), [[frame] for frame in curves]
            filled.append((column, [cell(column, *pair) for pair in zip(curves, scales, strict=True)]))
    rows = [Row(line.name, about(line, peaks[line.name]), tuple(cells[i] for _, cells in filled)) for i, line in enumerate(shown)]
    return [column for column, _ in filled], rows


def n_differs(frames: list[pd.DataFrame]) -> bool:
    """Whether the models' numbers depend on n and were taken at different n."""
    sizes = [
        int(frame["n"].max()) for frame in frames if "n" in frame and frame["interval_about"].eq(THIS_N).any() and frame["n"].notna().any()
    ]
    return bool(sizes) and not same_n(min(sizes), max(sizes))


def about(line: Line, peak: pd.Series) -> str:
    """How deep and how wide a model is, and how many vectors were read.

    Of a matrix, which has no layers, only the latter two.
    """
    depth = line.table.loc[line.table["kind"].eq("hidden"), "layer"].nunique()
    layers = [f"{depth} layers"] if depth else []
    return ", ".join([*layers, f"d = {peak['d']:,}", f"n = {peak['n']:,}"])


def values(line: Line, column: Column) -> pd.DataFrame:
    """The rows of a column by depth, with what is `shown` of each; of heads their mean by layer."""
    metric = line.cosine if column.metric == "cosine" else column.metric
    if column.heads:
        own = line.table[line.table["kind"].eq("attention") & line.table["metric"].eq(metric) & line.table["policy"].eq(line.policy)]
        means = own[own["head"].notna()].groupby("layer")["value"].mean().dropna()
        return pd.DataFrame({"layer": means.index, "value": means.to_numpy(), "kind": "attention", "shown": means.to_numpy()})
    rows = line.rows(metric).reset_index(drop=True)
    return rows.assign(shown=rows["value"] / rows["d"].astype(float) if column.part_of_d else rows["value"])


def cell(column: Column, frame: pd.DataFrame, among: list[pd.DataFrame]) -> Cell:
    """A number, its place and interval, and its curve on the scale of those `among` it; empty where the model has none."""
    if frame.empty:
        return Cell()
    top = max(float(other["shown"].max()) for other in among)
    bottom = min(0.0, *(float(other["shown"].min()) for other in among))
    if column.heads:
        return Cell(show(float(frame["value"].mean())), "", spark(frame, None, bottom, top, column.title))
    numbers = frame["shown"].to_numpy(float)
    at = int(numbers.argmin() if column.least else numbers.argmax())
    row, drawn = frame.iloc[at], spark(frame, at, bottom, top, column.title)
    if column.part_of_d:
        return Cell(share(float(row["shown"])), f"{place(row)}: {show(float(row['value']))}", drawn)
    interval = "" if pd.isna(row["low"]) else f": {span(row['low'], row['high'])}"
    return Cell(show(float(row["value"])), f"{place(row)}{interval}", drawn)


def spark(frame: pd.DataFrame, at: int | None, bottom: float, top: float, name: str) -> Spark | None:
    """The curve of a frame's rows, from left to right as they come; one point alone makes none."""
    numbers = [float(x) for x in frame["shown"]]
    if len(numbers) < 2:
        return None
    across = (WIDTH - 2 * EDGE) / (len(numbers) - 1)
    up = (HEIGHT - 2 * EDGE) / ((top - bottom) or 1.0)
    places = [(round(EDGE + i * across, 1), round(HEIGHT - EDGE - (x - bottom) * up, 1)) for i, x in enumerate(numbers)]
    said = f"{name} over {len(numbers)} layers, from {show(min(numbers))} to {show(max(numbers))}"
    return Spark(" ".join(f"{x},{y}" for x, y in places), None if at is None else places[at], said)
