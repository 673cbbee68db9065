"""Matrices on disk: the values, whatever the format, order and type; memory of a few blocks; a sentence for every mistake."""

import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from isoscope.core.errors import IsoscopeError
from isoscope.sources.arrays import open_array

X = np.random.default_rng(0).standard_normal((1003, 17)).astype(np.float32)


def fixed_size(x):
    return pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1])


WRITERS = {
    "c.npy": lambda path: np.save(path, X),
    "fortran.npy": lambda path: np.save(path, np.asfortranarray(X)),
    "big-endian.npy": lambda path: np.save(path, X.astype(">f4")),
    "big-endian-fortran.npy": lambda path: np.save(path, np.asfortranarray(X.astype(">f4"))),
    "stored.npz": lambda path: np.savez(path, X),
    "stored-fortran.npz": lambda path: np.savez(path, a=np.arange(3), X=np.asfortranarray(X)),
    "deflated.npz": lambda path: np.savez_compressed(path, a=np.arange(3), X=X),
    "deflated-fortran.npz": lambda path: np.savez_compressed(path, X=np.asfortranarray(X)),
    "x.safetensors": lambda path: save_file({"bias": X[0].copy(), "x": X}, path, metadata={"format": "np"}),
    "fixed.parquet": lambda path: pq.write_table(pa.table({"x": fixed_size(X), "n": range(1003)}), path, row_group_size=100),
    "list.parquet": lambda path: pq.write_table(pa.table({"id": ["a"] * 1003, "x": list(X)}), path, row_group_size=333),
    "columns.parquet": lambda path: pq.write_table(pa.table({"id": ["a"] * 1003} | {f"d{j}": X[:, j] for j in range(17)}), path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_matrix(tmp_path, name):
    WRITERS[name](tmp_path / name)
    matrix = open_array(tmp_path / name)
    assert (matrix.n, matrix.d, matrix.dtype) == (1003, 17, np.float32)
    assert matrix.name.startswith(name)
    for rows in (1, 100, 128, 4096):
        blocks = list(matrix.blocks(rows))
        assert max(map(len, blocks)) <= rows
        np.testing.assert_array_equal(np.concatenate(blocks), X)
        assert all(
            block.dtype == np.float32 and block.dtype.isnative and block.flags.writeable and block.flags.c_contiguous for block in blocks
        )
    for start, stop in ((0, 1), (99, 101), (500, None), (1002, 5000), (400, 400)):
        part = [np.empty((0, 17)), *matrix.blocks(64, start, stop)]
        np.testing.assert_array_equal(np.concatenate(part), X[start:stop])
    np.save(tmp_path / "reference.npy", X)
    assert matrix.fingerprint == open_array(tmp_path / "reference.npy").fingerprint


def test_a_key_chooses_among_arrays(tmp_path):
    np.savez(tmp_path / "two.npz", one=X, two=2 * X)
    save_file({"one": X, "two": 2 * X}, tmp_path / "two.safetensors")
    pq.write_table(pa.table({"one": fixed_size(X), "two": fixed_size(2 * X)}), tmp_path / "two.parquet")
    for suffix in ("npz", "safetensors", "parquet"):
        matrix = open_array(str(tmp_path / f"two.{suffix}"), "two")
        assert matrix.name == f"two.{suffix}:two"
        np.testing.assert_array_equal(next(matrix.blocks(5)), 2 * X[:5])
        with pytest.raises(IsoscopeError, match=r"holds several matrices: one \(1003, 17\), two \(1003, 17\); choose one with --key"):
            open_array(tmp_path / f"two.{suffix}")
        with pytest.raises(IsoscopeError, match=r"has no array called 'tow', did you mean two; it holds one"):
            open_array(tmp_path / f"two.{suffix}", "tow")
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(IsoscopeError, match=r"holds one array without a name; leave out the key 'x'"):
        open_array(tmp_path / "x.npy", "x")


def object_npz(path):
    np.savez(path, x=np.array([[{}]], dtype=object))


@pytest.mark.parametrize(
    ("name", "write", "sentence"),
    [
        (
            "x.xlsx",
            lambda p: p.write_text("1,2"),
            r"x\.xlsx must be a matrix in one of \.npy, \.npz, \.safetensors, \.parquet, \.csv, \.tsv, \.pt, \.pth; it ends in '\.xlsx'",
        ),
        ("none.npy", lambda p: None, r"There is no file called .*none\.npy"),
        ("x.npy", lambda p: p.mkdir(), r"x\.npy is a folder; name one file in it"),
        ("x.npy", lambda p: np.save(p, X[0]), r"array of shape \(17,\), and \(n, d\) is expected"),
        ("x.npy", lambda p: np.save(p, X[None]), r"array of shape \(1, 1003, 17\), and \(n, d\) is expected"),
        ("x.npz", lambda p: np.savez(p, X[0]), r"array of shape \(17,\), and \(n, d\) is expected"),
        ("x.npz", lambda p: np.savez(p, a=X[0], b=X[1]), r"holds no matrix of shape \(n, d\); its arrays are a \(17,\), b \(17,\)"),
        ("x.safetensors", lambda p: save_file({"x": X[None].copy()}, p), r"array of shape \(1, 1003, 17\)"),
        ("x.npy", lambda p: np.save(p, X[:0]), r"shape \(0, 17\), without a single value; at least one row"),
        ("x.parquet", lambda p: pq.write_table(pa.table({"x": fixed_size(X).slice(0, 0)}), p), r"shape \(0, 17\), without a single value"),
        ("x.npy", lambda p: np.save(p, np.array([[{}]], dtype=object)), r"holds pickled Python objects, which are never loaded"),
        ("x.npz", object_npz, r"holds pickled Python objects, which are never loaded"),
        ("x.npy", lambda p: np.save(p, X + 1j), r"holds values of type complex64, and a matrix of real numbers is expected"),
        ("x.npy", lambda p: np.save(p, np.array([["a", "b"]])), r"holds values of type <U1"),
        ("x.npy", lambda p: p.write_bytes(b"not numpy at all"), r"is not an \.npy array: its header cannot be read"),
        ("x.npy", lambda p: p.write_bytes(b""), r"is not an \.npy array"),
        ("x.npz", lambda p: p.write_bytes(b"PK not a zip"), r"is not a readable \.npz archive, or is damaged"),
        ("x.npz", lambda p: zipfile.ZipFile(p, "w").close(), r"holds no array"),
        ("x.safetensors", lambda p: p.write_bytes(b"abc"), r"is not a \.safetensors file: it has only 3 bytes"),
        (
            "x.safetensors",
            lambda p: p.write_bytes(b"\xff" * 16),
            r"its header would have 18446744073709551615 bytes, and 32000000 is the most",
        ),
        ("x.safetensors", lambda p: p.write_bytes(struct.pack("<Q", 500) + b"{}"), r"is truncated"),
        ("x.safetensors", lambda p: p.write_bytes(struct.pack("<Q", 3) + b"{x}"), r"its header is not JSON"),
        ("x.parquet", lambda p: p.write_bytes(b"PAR1PAR1"), r"is not a readable Parquet file, or is damaged"),
        (
            "x.parquet",
            lambda p: pq.write_table(pa.table({"s": ["a"]}), p),
            r"has no column of numbers or of lists of numbers; its columns are s",
        ),
        ("x.parquet", lambda p: pq.write_table(pa.table({"x": [[1.0, 2.0]] * 5 + [[1.0]]}), p), r"row 5 of 'x' has 1 values; .* here 2"),
        ("x.parquet", lambda p: pq.write_table(pa.table({"x": [[1.0, 2.0], None]}), p), r"row 1 of 'x' has a missing value"),
        (
            "x.parquet",
            lambda p: pq.write_table(pa.table({"x": [[1.0, 2.0], [3.0, 4.0], [3.0, None]]}), p),
            r"row 2 of 'x' has a missing value",
        ),
        ("x.parquet", lambda p: pq.write_table(pa.table({"a": [1.0, 2.0], "b": [1.0, None]}), p), r"row 1 of 'b' has a missing value"),
    ],
)
def test_damaged_or_unsuitable_files_are_refused_in_one_sentence(tmp_path, name, write, sentence):
    write(tmp_path / name)
    with pytest.raises(IsoscopeError, match=sentence):
        list(open_array(tmp_path / name).blocks())


@pytest.mark.parametrize("name", ["c.npy", "fortran.npy", "x.safetensors"])
def test_truncated_files_are_refused(tmp_path, name):
    WRITERS[name](tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:-1])
    with pytest.raises(IsoscopeError, match=r"is truncated: 68204 bytes of values are promised, 68203 are there; copy or save it again"):
        open_array(tmp_path / name)


@pytest.mark.parametrize(("name", "where"), [("deflated.npz", slice(2000, 6000)), ("fixed.parquet", slice(4, 60))])
def test_damage_between_the_values_is_one_sentence(tmp_path, name, where):
    WRITERS[name](tmp_path / name)
    raw = bytearray((tmp_path / name).read_bytes())
    raw[where] = bytes(where.stop - where.start)
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(IsoscopeError, match="or is damaged"):
        list(open_array(tmp_path / name, "X" if name == "deflated.npz" else None).blocks())
