"""The participation ratio of the population, from points that come in documents."""

import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from isoscope.estimation.cloud import Cloud
from isoscope.metrics import participation_ratio, participation_ratio_corrected
from isoscope.metrics.participation_ratio import corrected_participation
from isoscope.statistics.jackknife_groups import GROUPS
from isoscope.statistics.kernel import block_sums
from isoscope.statistics.sample import mix, point_hashes
from isoscope.statistics.site_statistics import SiteStatistics

sys.path.append(str(Path(__file__).parents[2] / "tools"))
from interval_coverage import Population, coverages


def cloud_of_documents(documents: list[np.ndarray], sample: int = 4096) -> Cloud:
    d, longest = documents[0].shape[1], max(map(len, documents))
    statistics = SiteStatistics(d, ["body"], sample=sample)
    x, mask = np.zeros((len(documents), longest, d)), np.zeros((len(documents), longest), bool)
    for i, rows in enumerate(documents):
        x[i, : len(rows)], mask[i, : len(rows)] = rows, True
    unit, sums = mix(np.arange(len(documents)).astype(np.uint64)), block_sums(x, mask)
    statistics.moments[0].add(sums, x[mask])
    statistics.groups.update((unit % np.uint64(GROUPS)).astype(np.int64), [sums], unit=unit.view(np.int64))
    owner, index = np.repeat(unit, longest), np.tile(np.arange(longest), len(documents))
    slices = np.where(mask.ravel(), 0, -1).astype(np.int16)
    statistics.sample.update(x.reshape(-1, d), point_hashes(0, owner, index), owner, index, slices)
    return Cloud.of(statistics, "all")


def over_different_documents(documents: list[np.ndarray]) -> float:
    """(tr Σ)²/tr(Σ²), each trace an average over points of two, three or four different documents, one after the other."""
    sums, outer, counts = [rows.sum(0) for rows in documents], [rows.T @ rows for rows in documents], [len(rows) for rows in documents]

    def average(k, kernel):
        chosen = list(permutations(range(len(documents)), k))
        return sum(kernel(*which) for which in chosen) / sum(np.prod([counts[i] for i in which]) for which in chosen)

    second = average(2, lambda i, j: (outer[i] * outer[j]).sum())
    third = average(3, lambda i, j, k: sums[i] @ outer[j] @ sums[k])
    fourth = average(4, lambda i, j, k, m: (sums[i] @ sums[j]) * (sums[k] @ sums[m]))
    trace = sum(map(np.trace, outer)) / sum(counts) - average(2, lambda i, j: sums[i] @ sums[j])
    return trace**2 / (second - 2 * third + fourth)


def test_it_is_the_average_over_points_of_different_documents():
    rng = np.random.default_rng(3)
    documents = [rng.normal(size=(4, 8)) * np.arange(1, 9) ** -0.5 + rng.normal(size=8) * 0.3 + 2 for _ in range(24)]
    plain = float(participation_ratio(cloud_of_documents(documents)))
    found, expected = corrected_participation(cloud_of_documents(documents))[0], over_different_documents(documents)
    assert abs(expected - plain) > 0.4
    assert found == pytest.approx(expected, rel=0.01)  # terms of the order of one over the square of the documents are left out


def test_a_long_drift_changes_nothing():
    """Documents of unequal length, a thousand times as far from the origin as from each other."""
    rng = np.random.default_rng(5)
    documents = [rng.normal(size=(length, 8)) + 0.5 * rng.normal(size=8) for length in rng.integers(1, 20, 60)]
    near, far = (corrected_participation(cloud_of_documents([rows + by for rows in documents])) for by in (0.0, 1000.0))
    assert far == pytest.approx(near, rel=1e-6)


@pytest.mark.parametrize("sample", [4096, 300])
def test_it_does_not_depend_on_n(sample):
    """The mean over corpora is that of the population at 60 documents and at 240; what is kept of a corpus may be a part of it."""
    v, rng = np.ones(32), np.random.default_rng(4)
    for count in (60, 240):
        found = []
        for _ in range(20):
            documents = [rng.normal(size=(6, 32)) + 0.7 * rng.normal(size=32) for _ in range(count)]
            found.append(corrected_participation(cloud_of_documents(documents, sample))[0])
        assert np.mean(found) == pytest.approx(len(v), abs=4 * np.std(found) / 20**0.5)


def test_an_interval_holds_the_population_at_a_sample_that_is_a_part_of_the_corpus():
    one = next(iter(coverages(Population(48, 100), [participation_ratio_corrected], 60)))
    assert one.population >= 0.9
    assert abs(one.bias) < 0.6


def test_too_few_documents_are_said():
    rng = np.random.default_rng(0)
    number = participation_ratio_corrected(cloud_of_documents([rng.normal(size=(9, 4)) for _ in range(3)]))
    assert np.isnan(number)
    assert number.note == "needs points of more documents than these, of 4 at least"
