"""Matrices in Parquet are decoded a batch at a time, and their columns have different names."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.sources.arrays import open_array


def fixed_size(x):
    return pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1])


def test_parquet_is_decoded_a_batch_at_a_time(tmp_path):
    x = np.random.default_rng(0).standard_normal((40_000, 256), dtype=np.float32)
    pq.write_table(pa.table({"x": fixed_size(x)}), tmp_path / "x.parquet", row_group_size=40_000, compression="none", use_dictionary=False)
    matrix = open_array(tmp_path / "x.parquet")
    before, peak = pa.total_allocated_bytes(), 0
    for _ in matrix.blocks(1000):
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert peak < x.nbytes / 3


def test_two_columns_of_one_name(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table([pa.array([1.0]), pa.array([2.0])], names=["d0", "d0"]), tmp_path / "x.parquet")
    with pytest.raises(IsoscopeError, match="has two columns of one name; name them apart"):
        open_array(tmp_path / "x.parquet")
