"""Components that all steps share, against numpy's SVD of all vectors held in memory."""

import numpy as np
import pytest

from isoscope.studies.training_dynamics.checkpoint_measures import HeadSums
from isoscope.studies.training_dynamics.trajectories import common_basis
from tests.studies.training_dynamics.made_points import heads_of, vectors


def same_up_to_sign(ours, theirs, tolerance=1e-9):
    """Whether columns agree but for their sign."""
    return np.allclose(np.abs((ours * theirs).sum(0)), 1, atol=tolerance)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("of", ["union", "query", "key"])
def test_a_basis_is_numpys_svd_of_all_vectors_of_all_steps(of, centred):
    queries = [vectors(seed, 300, 2, 8, offset=0.5 * seed) for seed in range(4)]
    keys = [vectors(10 + seed, 300, 2, 8, offset=seed) for seed in range(4)]
    q, k = (
        sum((HeadSums.of(heads_of(step), [0, 1, 2]) for step in side[1:]), HeadSums.of(heads_of(side[0]), [0, 1, 2]))
        for side in (queries, keys)
    )
    basis = common_basis({"union": q + k, "query": q, "key": k}[of], q, centred=centred, components=8)
    held = np.concatenate({"union": queries + keys, "query": queries, "key": keys}[of], axis=1)
    for j in range(2):
        x = held[j] - (held[j].mean(0) if centred else 0)
        _, s, vt = np.linalg.svd(x, full_matrices=False)
        assert same_up_to_sign(basis.vectors[j], vt.T)
        np.testing.assert_allclose(basis.parts[j], s**2 / (s**2).sum(), atol=1e-10)
        mean = np.concatenate(queries, axis=1)[j].mean(0)
        assert (mean @ basis.vectors[j] > 0).all()
        np.testing.assert_allclose(basis.head(j).coordinates(x[None, :5] + basis.centre[j])[0], x[:5] @ basis.vectors[j], atol=1e-9)


def test_the_sign_does_not_flip_where_the_mean_is_zero():
    outer = np.diag([3.0, 2.0, 1.0])[None]
    sums = HeadSums(6, np.zeros((1, 3)), outer)
    basis = common_basis(sums, sums)
    assert basis.vectors[0].diagonal().tolist() == [1.0, 1.0, 1.0]
