"""Sentences about an untrained block, from rows made by hand."""

import json

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.report.line import Line, all_lines
from isoscope.studies.untrained_block.curves import TRAINED
from isoscope.studies.untrained_block.sentences import cosine_gain, fixed_points, trained_norms
from tests.claims.made_rows import block_row

NAN = float("nan")


def line_of(*rows: dict[str, object]) -> Line:
    (line,) = all_lines(make_table(list(rows), TABLE_COLUMNS), make_table([], SERIES_COLUMNS))
    return line


def noted(metric: str, value: float, note: str, layer: int = 1) -> dict[str, object]:
    return block_row(metric, value, 0.1) | {"layer": layer, "spec": json.dumps({"note": note})}


def test_a_fixed_point_is_told_by_both_readings_and_every_depth():
    line = line_of(
        noted("drift_fixed_point", NAN, "no fixed point from N = 0 to 30"),
        noted("norm_fixed_point", 27.71, "not a property of the block"),
        noted("norm_fixed_point", 3.5, "a crossing", layer=4),
    )
    assert fixed_points(line) == (
        "Output and input are equally long: by the mean of norms N* = 27.7, not a property of the block; "
        "after 4 blocks, by the mean of norms N* = 3.50, a crossing; by the norm of the mean no fixed point from N = 0 to 30."
    )


def test_the_gain_is_told_with_its_interval_and_its_depth():
    line = line_of(block_row("least_cosine_gain", 0.0123, 0.001), block_row("least_cosine_gain", -0.2, 0.05) | {"layer": 12})
    assert cosine_gain(line) == (
        "For every norm of the bias, the mean cosine of the output minus that of the input is at least "
        "0.0123 (95 % interval 0.0113 to 0.0133), and -0.200 (95 % interval -0.250 to -0.150) after 12 blocks."
    )


def test_the_norms_of_a_trained_model_are_told_by_their_range_and_median():
    line = line_of(*(block_row(TRAINED, value, 0.1) | {"layer": layer} for layer, value in enumerate((4.0, 25.0, 9.0, NAN))))
    assert trained_norms(line) == "After training, the mean norms of its layers lie between 4.00 and 25.0, with a median of 9.00."


def test_nothing_is_said_without_numbers():
    line = line_of(block_row("least_cosine_gain", NAN, 0.1), block_row("query_cosine_unbiased", 0.3, 0.1))
    assert [speak(line) for speak in (fixed_points, cosine_gain, trained_norms)] == [None, None, None]
