"""The table of models: one row per model, with the few numbers that matter and a small curve of each over the layers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from isoscope.core.number import THIS_N, same_n
from isoscope.core.wording import format_interval, format_number, format_share
from isoscope.report.line import Line, site_of

WIDTH, HEIGHT, EDGE = 96, 26, 3
"""The size of a small curve in pixels, and the room around it."""


@dataclass(frozen=True)
class Spark:
    """A small curve: its points in the syntax of SVG, the dot on it, and a description."""

    points: str
    dot: tuple[float, float] | None
    description: str


@dataclass(frozen=True)
class Cell:
    """One number of one model, the site and interval below it, and its curve over the layers."""

    text: str = ""
    below: str = ""
    spark: Spark | None = None


@dataclass(frozen=True)
class Row:
    """One model: its size, and one cell per column."""

    name: str
    about: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Column:
    """A number of the overview: its heading, a hint below the heading, and the layer that it is taken from."""

    title: str
    hint: str
    metric: str
    reading: str
    """Which direction is good or bad, or that neither is."""
    least: bool = False
    """Whether to show the layer with the least value instead of the greatest."""
    heads: bool = False
    """Whether heads have this number; the overview shows their mean."""
    part_of_d: bool = False


NEITHER = "neither is good or bad"
COLUMNS = (
    Column("Cosine", "greatest, between items", "cosine", f"0 is isotropic; {NEITHER} below 0.98"),
    Column("Drift ratio", "greatest", "drift_ratio", f"{NEITHER}: centring removes it"),
    Column("Top share", "greatest", "top_share", NEITHER),
    Column("Effective rank", "least, of d", "effective_rank", "neither; losing it in training is bad", least=True, part_of_d=True),
    Column("Intrinsic dimension", "greatest, TwoNN", "two_nn", NEITHER),
    Column("Attention entropy", "mean of heads, 1 is uniform", "attention_entropy_normalised", f"{NEITHER} above 0.05", heads=True),
    Column("Sinks", "attention on the first position", "sink_mass", NEITHER, heads=True),
)


def overview(lines: list[Line]) -> tuple[list[Column], list[Row]]:
    """One row per model that has a cosine, and the columns that any of them fills.

    The curves of a column share one scale, unless the number depends on n and the models differ in n; the heading then says so.
    """
    peaks = {line.name: peak for line in lines if (peak := line.peak()) is not None}
    judged = [line for line in lines if line.name in peaks]
    filled: list[tuple[Column, list[Cell]]] = []
    for column in COLUMNS:
        curves = [values(line, column) for line in judged]
        known = [frame for frame in curves if len(frame)]
        if known:
            if n_differs(known):
                heading = replace(column, hint=f"{column.hint}; n differs, do not compare rows")
                scales = [[frame] for frame in curves]
            else:
                heading, scales = column, [known] * len(curves)
            filled.append((heading, [cell(column, *pair) for pair in zip(curves, scales, strict=True)]))
    rows = [Row(line.name, size_of(line, peaks[line.name]), tuple(cells[i] for _, cells in filled)) for i, line in enumerate(judged)]
    return [column for column, _ in filled], rows


def n_differs(frames: list[pd.DataFrame]) -> bool:
    """Whether the models' numbers depend on n and were taken at different n."""
    sizes = [
        int(frame["n"].max()) for frame in frames if "n" in frame and frame["interval_about"].eq(THIS_N).any() and frame["n"].notna().any()
    ]
    return bool(sizes) and not same_n(min(sizes), max(sizes))


def size_of(line: Line, peak: pd.Series) -> str:
    """The depth and width of a model and the number of vectors; a matrix has no depth."""
    depth = line.table.loc[line.table["kind"].eq("hidden"), "layer"].nunique()
    layers = [f"{depth} layers"] if depth else []
    return ", ".join([*layers, f"d = {peak['d']:,}", f"n = {peak['n']:,}"])


def values(line: Line, column: Column) -> pd.DataFrame:
    """The rows of a column by depth, with the number that is drawn as `drawn`; for heads, their mean per layer."""
    metric = line.cosine if column.metric == "cosine" else column.metric
    if column.heads:
        own = line.table[line.table["kind"].eq("attention") & line.table["metric"].eq(metric) & line.table["policy"].eq(line.policy)]
        means = own[own["head"].notna()].groupby("layer")["value"].mean().dropna()
        return pd.DataFrame({"layer": means.index, "value": means.to_numpy(), "kind": "attention", "drawn": means.to_numpy()})
    rows = line.rows(metric).reset_index(drop=True)
    return rows.assign(drawn=rows["value"] / rows["d"].astype(float) if column.part_of_d else rows["value"])


def cell(column: Column, frame: pd.DataFrame, among: list[pd.DataFrame]) -> Cell:
    """A number with its site and interval, and its curve on the scale of the frames `among`; empty if the model has no such number."""
    if frame.empty:
        return Cell()
    top = max(float(other["drawn"].max()) for other in among)
    # Curves start at 0 or below, so that heights compare; a scale from the least value would exaggerate small changes.
    bottom = min(0.0, *(float(other["drawn"].min()) for other in among))
    if column.heads:
        return Cell(format_number(float(frame["value"].mean())), "", spark(frame, None, bottom, top, column.title))
    numbers = frame["drawn"].to_numpy(float)
    # The dot on the curve marks the layer whose number is printed next to it.
    at = int(numbers.argmin() if column.least else numbers.argmax())
    row, curve = frame.iloc[at], spark(frame, at, bottom, top, column.title)
    if column.part_of_d:
        return Cell(format_share(float(row["drawn"])), f"{site_of(row)}: {format_number(float(row['value']))}", curve)
    below = ": ".join(filter(None, [site_of(row), format_interval(row["low"], row["high"])]))
    return Cell(format_number(float(row["value"])), below, curve)


def spark(frame: pd.DataFrame, at: int | None, bottom: float, top: float, name: str) -> Spark | None:
    """The curve of a frame's rows, from left to right; None for a single point."""
    numbers = [float(x) for x in frame["drawn"]]
    if len(numbers) < 2:
        return None
    across = (WIDTH - 2 * EDGE) / (len(numbers) - 1)
    # A column of zeros has no range; any scale draws it as a flat line.
    up = (HEIGHT - 2 * EDGE) / ((top - bottom) or 1.0)
    places = [(round(EDGE + i * across, 1), round(HEIGHT - EDGE - (x - bottom) * up, 1)) for i, x in enumerate(numbers)]
    description = f"{name} over {len(numbers)} layers, from {format_number(min(numbers))} to {format_number(max(numbers))}"
    return Spark(" ".join(f"{x},{y}" for x, y in places), None if at is None else places[at], description)
