"""Comma- and tab-separated values: which columns are dimensions, blocks, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.sources.arrays import open_array
from isoscope.trust.arrays import delimited

X = np.random.default_rng(0).standard_normal((300, 5))


def whole(matrix, *args):
    return np.concatenate(list(matrix.blocks(*args)))


@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t")])
@pytest.mark.parametrize("header", [True, False])
def test_numbers_are_read_exactly_with_and_without_names(tmp_path, suffix, separator, header, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 4096)  # so that the file has many batches
    path = tmp_path / f"x{suffix}"
    pd.DataFrame(X).to_csv(path, sep=separator, header=header, index=False)
    matrix = open_array(path)
    assert (matrix.n, matrix.d) == X.shape
    np.testing.assert_array_equal(whole(matrix), X)
    np.testing.assert_array_equal(whole(matrix, 7, 40, 211), X[40:211])
    assert max(len(block) for block in matrix.blocks(7)) == 7


def test_words_and_the_index_of_pandas_are_no_dimensions(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcde")).assign(id=[f"row {i}, of many" for i in range(300)])
    frame.to_csv(tmp_path / "x.csv")
    np.testing.assert_array_equal(whole(open_array(tmp_path / "x.csv")), X)


def test_integers_and_exponents_are_numbers(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4.5e-1\n-5,inf\n")
    np.testing.assert_array_equal(whole(open_array(tmp_path / "x.csv")), [[1, 2], [3, 0.45], [-5, np.inf]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,\n5,6\n", "row 1 of 'b' has a missing value"),
        ("a,b\n1,2\n3\n", "cannot be read as a table of numbers"),
        ("name,city\nx,y\n", "has no column of numbers; its columns are name, city"),
        ("a,a\n1,2\n", "two columns of one name"),
        ("\n1,2\n", "begins with an empty line"),
        ("", "begins with an empty line"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(tmp_path, text, message):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(IsoscopeError, match=message):
        whole(open_array(tmp_path / "x.csv"))


def test_a_word_far_down_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1024)
    (tmp_path / "x.csv").write_text("a,b\n" + "1,2\n" * 2000 + "1,oops\n")
    with pytest.raises(IsoscopeError, match="oops"):
        whole(open_array(tmp_path / "x.csv"))


def test_bytes_and_keys_are_refused(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"a,\xff\xfe\n1,2\n")
    with pytest.raises(IsoscopeError, match="no text of UTF-8"):
        open_array(tmp_path / "x.csv")
    (tmp_path / "y.tsv").write_text("1\t2\n")
    with pytest.raises(IsoscopeError, match="leave out the key 'a'"):
        open_array(tmp_path / "y.tsv", "a")
