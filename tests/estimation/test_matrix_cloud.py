"""What a matrix may be, and the sentence for what it may not."""

import numpy as np
import pandas as pd
import pytest
import torch

from isoscope.core.errors import IsoscopeError
from isoscope.estimation.matrix_cloud import RUN, cloud_of
from isoscope.metrics import mean_cosine, metrics, top_share
from isoscope.statistics.jackknife_groups import GROUPS

X = np.random.default_rng(0).standard_normal((40, 6))


def with_rows(value, rows, x=X):
    x = x.copy()
    x[rows, 2] = value
    return x


REFUSED = [
    ("one dimension", X[0], r"shape \(n, d\).*shape \(6,\)"),
    ("three dimensions", X[None], r"shape \(n, d\).*shape \(1, 40, 6\)"),
    ("a number", 3.0, r"shape \(n, d\)"),
    ("transposed", X.T, "6 rows and 40 columns: more dimensions than points.*transposed"),
    ("one point", X[:1, :1], "at least two points; the matrix has 1"),
    ("no point", X[:0], "at least two points; the matrix has 0"),
    ("all zero", np.zeros((30, 4)), "All 30 vectors of the matrix are zero"),
    ("NaN", with_rows(np.nan, [3, 9, 30]), "3 of 40 rows with NaN or infinity"),
    ("infinity", with_rows(-np.inf, [5]), "1 of 40 rows with NaN or infinity"),
    ("float32 NaN", with_rows(np.nan, [0, 1]).astype(np.float32), "2 of 40 rows with NaN or infinity"),
    ("tensor NaN", torch.from_numpy(with_rows(np.nan, [7])), "1 of 40 rows with NaN or infinity"),
    ("strings", [["a", "b"], ["c", "d"]], "real numbers; the matrix holds <U1"),
    ("objects", np.array([[1, "x"], [2, None]], dtype=object), "real numbers; the matrix holds object"),
    ("complex", X + 1j, "real numbers; the matrix holds complex128"),
    ("a complex tensor", torch.from_numpy(X + 1j), "real numbers; the matrix holds torch.complex128"),
    ("ragged", [[1.0, 2.0], [3.0]], "rows of the matrix differ in length"),
    ("None", None, "real numbers"),
    ("no columns", np.zeros((5, 0)), r"shape \(n, d\).*shape \(5, 0\)"),
]


@pytest.mark.parametrize(("matrix", "sentence"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
@pytest.mark.parametrize("metric", [mean_cosine, top_share])
def test_refused_in_one_sentence(metric, matrix, sentence):
    with pytest.raises(IsoscopeError, match=sentence) as caught:
        metric(matrix)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_every_metric_counts_the_bad_rows():
    for metric in metrics("points"):
        with pytest.raises(IsoscopeError, match="4 of 40 rows with NaN or infinity"):
            metric(with_rows(np.nan, [0, 12, 13, 39]))


def test_a_wide_matrix_on_request():
    assert mean_cosine(X.T, allow_wide=True).d == 40


def test_anything_numpy_can_see():
    expected = float(top_share(X))
    for given in (X.tolist(), pd.DataFrame(X), np.asfortranarray(X), np.ma.masked_array(X), torch.from_numpy(X), X.astype(np.longdouble)):
        assert top_share(given) == pytest.approx(expected, rel=1e-12)


def test_large_integers_keep_their_digits():
    x = np.random.default_rng(1).integers(0, 100, (50, 3)) + 2**40
    assert top_share(x) == pytest.approx(top_share((x - 2**40).astype(float)), rel=1e-6)
    assert top_share(torch.from_numpy(x)) == pytest.approx(top_share((x - 2**40).astype(float)), rel=1e-6)


def test_booleans():
    x = np.random.default_rng(2).random((50, 4)) < 0.7
    x[:, 0] = True
    assert top_share(x) == pytest.approx(top_share(x.astype(float)), rel=1e-12)
    assert top_share(torch.from_numpy(x)) == pytest.approx(top_share(x.astype(float)), rel=1e-12)


def test_the_matrix_is_not_changed():
    x = X.copy()
    for metric in metrics("points"):
        metric(x)
    np.testing.assert_array_equal(x, X)


def test_groups_by_runs_of_a_large_matrix():
    """From 64 runs on, rows share a group of the jackknife by runs: the sums and the interval stay those of the points."""
    n = GROUPS * RUN + 777
    x = np.random.default_rng(3).standard_normal((n, 2)) + np.array([0.4, 0])
    cloud = cloud_of(x, ("directions", "sums", "groups"))
    t = cloud.groups.totals
    assert t.n == n
    assert t.pairs == n
    np.testing.assert_allclose(t.total, x.sum(0), rtol=1e-10)
    by_group = np.array([x[(np.arange(n) // RUN) % GROUPS == g].sum(0) for g in range(GROUPS)])
    np.testing.assert_allclose(cloud.groups.sums[0, 0], by_group, rtol=1e-9)
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    found = mean_cosine(cloud)
    # To first order the mean cosine is ‖ū‖², whose standard error is 2‖ū‖ times that of ū along itself.
    along = u @ u.mean(0) / np.linalg.norm(u.mean(0))
    error = 2 * np.linalg.norm(u.mean(0)) * along.std() / n**0.5
    assert (found.high - found.low) / 2 == pytest.approx(2 * error, rel=0.3)
