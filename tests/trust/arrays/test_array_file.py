"""Matrices on disk, whatever the format: types, fingerprints, blocks and memory."""

import tracemalloc

import numpy as np
import pytest
from safetensors.numpy import save_file

from isoscope.core.errors import IsoscopeError
from isoscope.sources.arrays import open_array

X = np.random.default_rng(0).standard_normal((1003, 17)).astype(np.float32)


def test_the_fingerprint_follows_values_shape_and_type(tmp_path):
    prints = set()
    for i, x in enumerate([X, X[:-1], X.astype(np.float64), X.reshape(17, 1003), X + np.eye(1003, 17, dtype=np.float32)]):
        np.save(tmp_path / f"{i}.npy", x)
        prints.add(open_array(tmp_path / f"{i}.npy").fingerprint)
    assert len(prints) == 5


@pytest.mark.parametrize(
    ("stored", "given"),
    [("f2", "f2"), ("f4", "f4"), ("f8", "f8"), ("i1", "f4"), ("u2", "f4"), ("?", "f4"), ("i4", "f8"), (">i8", "f8")],
)
def test_blocks_have_the_stored_float_type_or_the_smallest_exact_one(tmp_path, stored, given):
    x = np.array([[0, 1], [1, 1], [1, 0]]).astype(stored)
    np.save(tmp_path / "x.npy", x)
    save_file({"x": x.astype(x.dtype.newbyteorder("="))}, tmp_path / "x.safetensors")
    for name in ("x.npy", "x.safetensors"):
        (block,) = open_array(tmp_path / name).blocks()
        assert block.dtype == np.dtype(given)
        np.testing.assert_array_equal(block, x)


@pytest.mark.parametrize("name", ["c.npy", "fortran.npy", "x.npz", "x.safetensors"])
def test_memory_is_a_few_blocks(tmp_path, name):
    def write(path, x):
        if name.endswith("npz"):
            np.savez_compressed(path, x=x)
        elif name.endswith("npy"):
            np.save(path, np.asfortranarray(x) if name == "fortran.npy" else x)
        else:
            save_file({"x": x}, path)

    write(tmp_path / name, np.ones((40_000, 256), np.float32))  # 41 MB
    rows = 5000
    block = rows * 256 * 4  # 5 MB
    tracemalloc.start()
    matrix = open_array(tmp_path / name)
    total = sum(float(part.sum()) for part in matrix.blocks(rows))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 40_000 * 256
    assert peak < 4 * block


def test_a_block_needs_at_least_one_row(tmp_path):
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(IsoscopeError, match="must be at least 1; got 0"):
        open_array(tmp_path / "x.npy").blocks(0)
