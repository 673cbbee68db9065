"""Matrices and texts that cannot be measured."""

import numpy as np
import pandas as pd
import pytest

from tests.cli.calling import isoscope


def cloud(n=100, d=8):
    return np.random.default_rng(0).standard_normal((n, d))


def with_bad_values():
    points = cloud()
    points[3, 2], points[7, 1], points[7, 2] = np.nan, np.inf, -np.inf
    return points


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (cloud(8, 100), "x.npy has 8 rows and 100 columns: more dimensions than points"),
        (cloud()[:, 0], "holds an array of shape (100,), and (n, d) is expected"),
        (cloud(8, 20).reshape(8, 10, 2), "holds an array of shape (8, 10, 2), and (n, d) is expected"),
        (cloud(1, 1), "needs at least two points; x.npy has 1"),
        (cloud(0, 4), "holds an array of shape (0, 4), without a single value"),
        (with_bad_values(), "x.npy has 2 of 100 rows with NaN or infinity"),
        (np.zeros((100, 8)), "All 100 vectors of x.npy are zero"),
        (np.array([["a", "b"]] * 3), "a matrix of real numbers is expected"),
        (np.array([[1, None]] * 3, dtype=object), "pickled Python objects, which are never loaded"),
    ],
)
def test_a_matrix_that_is_none(tmp_path, matrix, said):
    np.save(tmp_path / "x.npy", matrix)
    isoscope("embeddings", tmp_path / "x.npy", "-q").refused(said)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.npy", b"", "is not an .npy array"),
        ("x.npz", b"rubbish", "is not a readable .npz archive"),
        ("x.safetensors", b"rubbish", "is not a .safetensors file"),
        ("x.parquet", b"rubbish", "is not a readable Parquet file"),
        ("x.safetensor", b"", "it ends in '.safetensor', did you mean .safetensors"),
    ],
)
def test_a_file_that_is_no_matrix(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    isoscope("embeddings", tmp_path / name, "-q").refused(str(tmp_path / name), said)


def test_a_matrix_that_is_not_there(tmp_path):
    isoscope("embeddings", tmp_path / "x.npy").refused(f"There is no file called {tmp_path / 'x.npy'}")
    isoscope("embeddings", tmp_path).refused(f"{tmp_path} is a folder; name one file in it")


def test_zero_vectors_are_said_aloud_and_left_out(tmp_path):
    points = cloud()
    points[:5] = 0
    np.save(tmp_path / "x.npy", points)
    answer = isoscope("embeddings", tmp_path / "x.npy", "--metric", "mean_cosine", "-q").worked()
    assert answer.err == ("isoscope: note: 5 of 100 vectors of x.npy are zero; they have no direction and are left out of the cosines.\n")
    assert "95 points in 8 dimensions" in answer.out


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("mean_cosin", "There is no metric called 'mean_cosin', did you mean mean_cosine?"),
        ("spectrum", "There is no metric called 'spectrum'"),
        ("", "There is no metric called ''; see `isoscope list metrics`."),
        ("centred_cosine", "centred_cosine needs a sample of the points (--sample 4096)"),
    ],
)
def test_a_metric_that_cannot_be_had(tmp_path, metric, said):
    np.save(tmp_path / "x.npy", cloud())
    isoscope("embeddings", tmp_path / "x.npy", "-q", "--metric", metric, "--sample", "0").refused(said)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"", "a.txt holds no text: it is empty or has only white space"),
        ("a.txt", b" \n\n \n", "a.txt holds no text: it is empty or has only white space"),
        ("a.txt", b"hello \xff there", "a.txt is not UTF-8: byte 0xff at offset 6 cannot be decoded"),
        ("a.txt", b"the of and\n\n" * 50 + b"\xfe", "a.txt is not UTF-8: byte 0xfe at offset 600"),
        ("a.jsonl", b'{"text": ', "a.jsonl, line 1 is not JSON"),
        ("a.jsonl", b'{"text": "the of"}\n{"text": ', "a.jsonl, line 2 is not JSON"),
        ("a.jsonl", b'{"title": 3}\n', "line 1 has no column 'text'; its columns are title"),
        ("a.parquet", b"PAR1 but not really", "a.parquet is not a readable Parquet file"),
        ("a.doc", b"text", "No source reads "),
    ],
)
def test_a_text_that_is_none(tmp_path, bert, name, content, said):
    (tmp_path / name).write_bytes(content)
    isoscope("measure", bert, "--data", tmp_path / name, "--out", tmp_path / "run", "-q").refused(said)
    assert not (tmp_path / "run" / "cells").exists() or not list((tmp_path / "run" / "cells").iterdir())


def test_a_parquet_without_that_column(tmp_path, bert):
    path = tmp_path / "a.parquet"
    pd.DataFrame({"body": ["the of"], "title": ["and"]}).to_parquet(path)
    words = ("measure", bert, "--data", path, "--out", tmp_path / "run", "-q")
    isoscope(*words).refused(f"{path} has no column 'text'; its columns are body, title: choose one with --column")
    isoscope(*words, "--column", "bdy").refused("has no column 'bdy', did you mean body")


def test_a_source_that_is_not_there(tmp_path, bert):
    words = ("measure", bert, "--out", tmp_path / "run", "-q", "--data")
    isoscope(*words, tmp_path / "no.txt").refused("There is no file or folder called ")
    isoscope(*words, tmp_path / "*.txt").refused(f"The pattern {tmp_path / '*.txt'} matches no file")
    isoscope(*words, tmp_path).refused(f"The folder {tmp_path} holds no file that a source can read")
