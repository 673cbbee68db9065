"""A linear map in thin factors, as a matrix and as a transform of faiss, is the map that `transform` computes."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from isoscope.repair import AllButTheTop, CentreClusters, RepairError, Whiten
from isoscope.repair.linear_map import LinearMap
from tests.repair.repair_clouds import LINEAR, anisotropic, two_balls


def test_both_terms_are_added():
    rng = np.random.default_rng(0)
    z, diagonal, down, up = rng.normal(size=(9, 5)), rng.normal(size=5), rng.normal(size=(5, 2)), rng.normal(size=(2, 5))
    whole = LinearMap(diagonal, down, up)
    np.testing.assert_allclose(whole.matrix(), np.diag(diagonal) + down @ up, atol=1e-14)
    np.testing.assert_allclose(whole(z), z @ whole.matrix(), atol=1e-13)
    np.testing.assert_allclose(LinearMap(down=down).matrix(), down, atol=0)
    np.testing.assert_allclose(LinearMap(down=down, up=up)(z), z @ down @ up, atol=0)


@pytest.mark.filterwarnings("ignore::isoscope.core.errors.IsoscopeWarning")
@pytest.mark.parametrize("offset", [5.0, 1000.0])
@pytest.mark.parametrize("repair", LINEAR, ids=repr)
def test_a_faiss_transform_computes_the_repair_in_float32(repair, offset):
    pytest.importorskip("faiss")
    X = two_balls(offset=offset).astype(np.float32)
    repair = clone(repair).fit(X)
    transform = repair.to_faiss()
    expected = repair.transform(X.astype(np.float64))
    assert (transform.d_in, transform.d_out) == (12, expected.shape[1])
    gain = np.linalg.norm(repair._linear_map().matrix(), 2)
    error = np.linalg.norm(transform.apply(X) - expected, axis=1)
    assert (error < 1e-6 * gain * np.linalg.norm(X, axis=1)).all()


def test_an_index_with_the_transform_finds_the_neighbours_of_repaired_points():
    faiss = pytest.importorskip("faiss")
    X, queries = anisotropic(500).astype(np.float32), anisotropic(40, seed=3).astype(np.float32)
    repair = Whiten(n_components=6).fit(X)
    index = faiss.IndexPreTransform(repair.to_faiss(), faiss.IndexFlatL2(6))
    gc.collect()  # the index must keep the transform
    index.add(X)
    points, asked = repair.transform(X), repair.transform(queries)
    nearest = np.linalg.norm(asked[:, None] - points, axis=2).argmin(1)
    np.testing.assert_array_equal(index.search(queries, 1)[1][:, 0], nearest)


def test_what_faiss_cannot_hold_is_refused():
    with pytest.raises(
        RepairError, match=r"^CentreClusters is not a linear map, and faiss has linear ones only; give the index repaired points\.$"
    ):
        CentreClusters(k=2).fit(two_balls()).to_faiss()
    with pytest.raises(NotFittedError):
        AllButTheTop().to_faiss()
