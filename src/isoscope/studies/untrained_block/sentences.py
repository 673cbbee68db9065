"""Sentences about an untrained block."""

from __future__ import annotations

from isoscope.core.wording import format_number
from isoscope.report.line import Line, interval_of
from isoscope.studies.untrained_block.curves import TRAINED
from isoscope.trust.safe_io import parse_object

READINGS = {"norm_fixed_point": "by the mean of norms", "drift_fixed_point": "by the norm of the mean"}


def fixed_points(line: Line) -> str | None:
    """The norm at which input and output are equally long, for every depth, and whether it is a property of the block."""
    parts = []
    for metric, reading in READINGS.items():
        for row in line.table[line.table["metric"].eq(metric)].to_dict("records"):
            depth = f"after {row['layer']} blocks, " if row["layer"] != 1 else ""
            value = format_number(row["value"], missing="")
            note = parse_object(row["spec"]).get("note", "")
            parts.append(f"{depth}{reading}{f' N* = {value},' if value else ''} {note}")
    return f"Output and input are equally long: {'; '.join(parts)}." if parts else None


def cosine_gain(line: Line) -> str | None:
    """Whether the output is more anisotropic than the input, whatever the bias."""
    rows = line.table[line.table["metric"].eq("least_cosine_gain") & line.table["value"].notna()]
    parts = []
    for _, row in rows.iterrows():
        depth = f" after {row['layer']} blocks" if row["layer"] != 1 else ""
        parts.append(f"{format_number(float(row['value']))}{interval_of(row)}{depth}")
    if not parts:
        return None
    return f"For every norm of the bias, the mean cosine of the output minus that of the input is at least {', and '.join(parts)}."


def trained_norms(line: Line) -> str | None:
    """The norms of a trained model, to compare a fixed point with."""
    norms = line.table.loc[line.table["metric"].eq(TRAINED), "value"].dropna()
    if norms.empty:
        return None
    lowest, median, highest = map(format_number, (norms.min(), norms.median(), norms.max()))
    return f"After training, the mean norms of its layers lie between {lowest} and {highest}, with a median of {median}."
