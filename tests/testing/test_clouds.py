"""The clouds on which extensions are checked are as different as their names say."""

import numpy as np
import pytest

from isoscope.metrics import attention_entropy, mean_cosine, top_share
from isoscope.testing import attention_cloud, random_attention, random_clouds, random_stack


def test_each_matrix_has_the_property_that_it_is_named_after():
    clouds = random_clouds()
    assert abs(mean_cosine(clouds["isotropic"])) < 0.01
    assert mean_cosine(clouds["drifting"]) > 0.99
    assert top_share(clouds["dominated"]) > 0.95
    norms = np.linalg.norm(clouds["heavy norms"], axis=1)
    assert norms.max() / np.median(norms) > 10
    assert len(np.unique(clouds["duplicates"], axis=0)) == len(clouds["duplicates"]) * 4 // 5


@pytest.mark.parametrize("kind", ["isotropic", "drifting", "sharp", "sink", "equal"])
def test_attention_is_that_of_a_loop_over_rows(kind):
    query, key = random_attention()[kind]
    entropies = []
    for q, k in zip(query, key, strict=True):
        for t in range(len(q)):
            scores = k[: t + 1] @ q[t] / q.shape[1] ** 0.5
            p = np.exp(scores - scores.max())
            p /= p.sum()
            entropies.append(-np.sum(p * np.log(p, where=p > 0, out=np.zeros_like(p))))
    assert float(attention_entropy(attention_cloud(query, key))) == pytest.approx(np.mean(entropies), rel=1e-4, abs=1e-6)


def test_a_stack_has_its_largest_share_in_the_middle():
    shares = [float(top_share(cloud)) for cloud in random_stack(8).values()]
    assert np.argmax(shares) == 4
    assert shares[:5] == sorted(shares[:5])
    assert shares[4:] == sorted(shares[4:], reverse=True)


def test_another_seed_gives_other_clouds_and_the_same_seed_the_same():
    for make in (random_clouds, random_attention):
        first, again, other = (make(seed)["isotropic"] for seed in (0, 0, 1))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)
