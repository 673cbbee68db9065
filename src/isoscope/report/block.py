"""What a table says about an untrained block, in plain sentences."""

from __future__ import annotations

from isoscope.core.block import TRAINED
from isoscope.core.bounded import parsed_object
from isoscope.report.line import Line, bounds, show

READINGS = {"norm_fixed_point": "by the mean of norms", "drift_fixed_point": "by the norm of the mean"}


def fixed_points(line: Line) -> str | None:
    """Where input and output are equally long, and whether that is a property of the block; for every depth."""
    parts = []
    for metric, reading in READINGS.items():
        for row in line.table[line.table["metric"].eq(metric)].to_dict("records"):
            after = f"after {row['layer']} blocks, " if row["layer"] != 1 else ""
            value = "" if row["value"] != row["value"] else f" N* = {row['value']:.2f},"
            parts.append(f"{after}{reading}{value} {parsed_object(row['spec']).get('note', '')}")
    return f"Where output and input are equally long: {'; '.join(parts)}." if parts else None


def cosine_gain(line: Line) -> str | None:
    """Whether the output is more anisotropic than the input whatever the bias."""
    rows = line.table[line.table["metric"].eq("least_cosine_gain") & line.table["value"].notna()]
    parts = []
    for _, row in rows.iterrows():
        after = f" after {row['layer']} blocks" if row["layer"] != 1 else ""
        parts.append(f"{show(float(row['value']))}{bounds(row)}{after}")
    return f"The output's mean cosine minus the input's is, over all norms of the bias, at least {', and '.join(parts)}." if parts else None


def trained_norms(line: Line) -> str | None:
    """The norms of a trained model that a fixed point is held against."""
    norms = line.table.loc[line.table["metric"].eq(TRAINED), "value"].dropna()
    if norms.empty:
        return None
    between = f"{show(norms.min())} and {show(norms.max())}"
    return f"Trained, the mean norms of its layers lie between {between}, with a median of {show(norms.median())}."
