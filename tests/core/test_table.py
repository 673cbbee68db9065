"""Tables that are put together of many."""

import pandas as pd
import pyarrow as pa

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, stacked, tidy
from isoscope.store.cell import arrow_table, join_frames


def pieces(texts):
    """In how many pieces a column lies in memory."""
    found = pa.array(texts.array)
    return found.num_chunks if isinstance(found, pa.ChunkedArray) else 1


def test_texts_of_many_cells_lie_in_one_piece():
    """A page of 20,000 cells took 115 s with a piece a cell, and takes 6."""
    frames = [tidy([{"model": f"m{i}", "layer": i}, {"metric": "x"}], TABLE_COLUMNS) for i in range(50)]
    expected = pd.concat(frames, ignore_index=True)
    for found in (stacked(frames, TABLE_COLUMNS), join_frames([arrow_table(frame, TABLE_COLUMNS) for frame in frames], TABLE_COLUMNS)):
        pd.testing.assert_frame_equal(found, expected)
        assert {pieces(found[name]) for name, kind in TABLE_COLUMNS.items() if kind == "string"} == {1}


def test_nothing_is_a_table_too():
    pd.testing.assert_frame_equal(stacked([], SERIES_COLUMNS), tidy([], SERIES_COLUMNS))
