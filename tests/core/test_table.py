"""Tables that are concatenated from many."""

import pandas as pd
import pyarrow as pa

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, concat_tables, make_table
from isoscope.runs.tables import arrow_table, join_frames


def count_chunks(texts):
    """The number of Arrow chunks of a column."""
    array = pa.array(texts.array)
    return array.num_chunks if isinstance(array, pa.ChunkedArray) else 1


def test_strings_of_many_cells_are_in_one_chunk():
    """With one chunk per cell, a page of 20,000 cells takes 115 s instead of 6."""
    frames = [make_table([{"model": f"m{i}", "layer": i}, {"metric": "x"}], TABLE_COLUMNS) for i in range(50)]
    expected = pd.concat(frames, ignore_index=True)
    arrow = [arrow_table(frame, TABLE_COLUMNS) for frame in frames]
    for found in (concat_tables(frames, TABLE_COLUMNS), join_frames(arrow, TABLE_COLUMNS)):
        pd.testing.assert_frame_equal(found, expected)
        assert {count_chunks(found[name]) for name, kind in TABLE_COLUMNS.items() if kind == "string"} == {1}


def test_no_frames_give_an_empty_table_with_all_columns():
    pd.testing.assert_frame_equal(concat_tables([], SERIES_COLUMNS), make_table([], SERIES_COLUMNS))
