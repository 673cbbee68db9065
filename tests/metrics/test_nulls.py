"""The declared null of every metric, and its spread, against simulation."""

import numpy as np
import pytest

from isoscope.estimation.cloud import Cloud
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.metrics import metrics, registry, top_share, top_share_norm_null
from isoscope.statistics.jackknife_groups import GROUPS
from isoscope.statistics.kernel import block_sums
from isoscope.statistics.site_statistics import SiteStatistics

CLOSED = ("isotropy_score", "mean_cosine", "between_cosine", "cosine_sd", "drift_norm", "drift_ratio")
SIMULATED = (
    "effective_rank",
    "participation_ratio",
    "isoscore",
    "matrix_entropy",
    "stable_rank",
    "rankme",
    "spectral_decay",
    "top_share_linear",
)
CORRECTED = "participation_ratio_corrected"
NEIGHBOURS = ("two_nn", "two_nn_mle", "two_nn_razzhigaev", "two_nn_batches", "gride", "levina_bickel", "hubness")
OWN_TEST = (CORRECTED, "top_share", "centred_cosine")
DRAWS = 300
NULL_DRAWS = 24  # of `isotropic_spectra`


def has_null(metric):
    return np.isfinite(metric(np.random.default_rng(0).standard_normal((100, 24))).null_sd)


# The local ones have a Gaussian of the same covariance for their null, and tests of their own.
UNLISTED = [
    metric
    for metric in metrics("points")
    if metric.name not in (*CLOSED, *SIMULATED, *NEIGHBOURS, *OWN_TEST)
    and not metric.name.startswith(("local_", "cluster_"))
    and has_null(metric)
]
SIMULATED += tuple(metric.name for metric in UNLISTED if not {"sample", "neighbours"} & set(metric.reads))
NEIGHBOURS += tuple(metric.name for metric in UNLISTED if {"sample", "neighbours"} & set(metric.reads))


@pytest.fixture(scope="module", params=[(200, 24), (60, 32), (30, 48)], ids=str)
def drawn(request):
    n, d = request.param
    rng, found = np.random.default_rng(n), {}
    for _ in range(DRAWS):
        cloud = cloud_of(rng.standard_normal((n, d)) * 3, allow_wide=True)
        bare = Cloud(cloud.moments, cloud.groups)  # without a sample there is no bootstrap, which would take most of the time
        for name in (*CLOSED, *SIMULATED):
            found.setdefault(name, []).append(registry[name](bare))
        found.setdefault(CORRECTED, []).append(registry[CORRECTED](cloud))  # it takes the pairs within documents from the sample
    return n, d, found


@pytest.mark.parametrize("name", [*CLOSED, *SIMULATED, *NEIGHBOURS, *OWN_TEST])
def test_metrics_that_are_tried_here_have_a_null(name):
    """Metrics that no list above names are added to them by what they read, so every null is tried."""
    assert has_null(registry[name])


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_nulls_of_neighbours(name):
    """Drawn at a nearby n, by few draws: they lie within the spread of the metric over clouds of its own n."""
    rng = np.random.default_rng(5)
    found = [registry[name](rng.standard_normal((300, 12))) for _ in range(40)]
    values, null = np.array(found), found[0].null
    assert abs(values.mean() - null) < 4 * found[0].null_sd * (1 / 3 + 1 / 40) ** 0.5
    assert values.std() / 4 < found[0].null_sd < 4 * values.std()


@pytest.mark.parametrize("name", [*CLOSED, CORRECTED])
def test_closed_nulls(drawn, name):
    _, _, found = drawn
    values, null = np.array(found[name]), np.mean([number.null for number in found[name]])
    null_sd = np.mean([number.null_sd for number in found[name]])
    lower = null_sd**2 / (2 * null) if name == "cosine_sd" else 0.0  # the root of a mean lies above the mean of the roots
    assert values.mean() == pytest.approx(null - lower, abs=4 * values.std() / DRAWS**0.5)
    assert values.std() == pytest.approx(null_sd, rel=0.2)


@pytest.mark.parametrize("name", SIMULATED)
def test_simulated_nulls(drawn, name):
    _, _, found = drawn
    values, null, null_sd = np.array(found[name]), found[name][0].null, found[name][0].null_sd
    assert values.mean() == pytest.approx(null, abs=4 * values.std() * (1 / DRAWS + 1 / NULL_DRAWS) ** 0.5)
    assert null_sd == pytest.approx(values.std(), rel=0.5)  # 24 draws know a standard deviation to 15 %
    assert null == 0 or abs(values.mean() - null) < 0.05 * abs(null)


@pytest.mark.parametrize("spread", [0.0, 1.0])
@pytest.mark.parametrize(("n", "d"), [(200, 24), (300, 64), (30, 48)])
def test_null_of_the_centred_cosine(n, d, spread):
    """It is that of the observed norms, so each draw is compared with its own; the formula is of first order in 1/n."""
    rng = np.random.default_rng(9)
    draws = [rng.standard_normal((n, d)) * rng.lognormal(0, spread, (n, 1)) for _ in range(DRAWS)]
    numbers = [registry["centred_cosine"](x, allow_wide=True) for x in draws]
    z = np.array([(number - number.null) / number.null_sd for number in numbers])
    assert abs(z.mean()) < 0.4
    assert 0.8 < z.std() < 1.15
    if spread:  # heavy norms move it well away from 0, and the null goes with it
        assert np.mean(numbers) > 2 / n


def test_cosines_within_and_between_documents():
    """Under isotropy documents share nothing: both have mean 0 and the spread that the number of their pairs gives."""
    rng, d = np.random.default_rng(4), 16
    lengths = rng.integers(1, 12, 50)
    mask = np.arange(12) < lengths[:, None]
    found = {"within_cosine": [], "between_cosine": []}
    for _ in range(DRAWS):
        statistics = SiteStatistics(d, ["body"], second=False, sample=0)
        sums = block_sums(rng.standard_normal((50, 12, d)), mask)
        statistics.groups.update(np.arange(50) % GROUPS, [sums], unit=np.arange(50).astype(np.uint64))
        statistics.moments[0].add(sums, None)
        for name, numbers in found.items():
            numbers.append(registry[name](Cloud.of(statistics, "body")))
    for name, numbers in found.items():
        values, null_sd = np.array(numbers), numbers[0].null_sd
        assert values.mean() == pytest.approx(0, abs=4 * null_sd / DRAWS**0.5), name
        assert values.std() == pytest.approx(null_sd, rel=0.15), name


@pytest.mark.parametrize(("n", "d"), [(4096, 768), (1000, 100), (50, 200)])
def test_top_share_null_is_the_edge(n, d):
    cloud = cloud_of(np.random.default_rng(5).standard_normal((n, d)).astype(np.float32), ("second",), allow_wide=True)
    found = top_share(cloud)
    assert found.null == pytest.approx((1 + (d / n) ** 0.5) ** 2 / d, rel=1e-12)
    assert found == pytest.approx(found.null, rel=0.1)


def simulated_share(norms, d, draws, rng):
    shares = []
    for _ in range(draws):
        u = rng.standard_normal((len(norms), d))
        x = norms[:, None] * u / np.linalg.norm(u, axis=1, keepdims=True)
        values = np.linalg.eigvalsh(np.cov(x.T))
        shares.append(values[-1] / values.sum())
    return float(np.mean(shares))


@pytest.mark.parametrize(
    ("kind", "within"),
    [("equal", 0.05), ("log-normal", 0.15), ("very log-normal", 0.2), ("few massive", 0.3), ("some massive", 0.2)],
)
def test_norms_alone(kind, within):
    """The norm-matched null against clouds of uniform directions with these norms."""
    rng, n, d = np.random.default_rng(6), 1500, 96
    norms = {
        "equal": np.ones(n),
        "log-normal": rng.lognormal(0, 0.5, n),
        "very log-normal": rng.lognormal(0, 1.2, n),
        "few massive": np.where(np.arange(n) < 3, 300.0, 1.0),
        "some massive": np.where(np.arange(n) < 60, 30.0, 1.0),
    }[kind]
    u = rng.standard_normal((n, d))
    found = top_share_norm_null(norms[:, None] * u / np.linalg.norm(u, axis=1, keepdims=True))
    assert found == pytest.approx(simulated_share(norms, d, 10, rng), rel=within)
    if kind == "equal":
        assert found == pytest.approx((1 + (d / n) ** 0.5) ** 2 / d, rel=1e-3)


def test_norm_null_of_a_sample_is_that_of_the_whole():
    rng = np.random.default_rng(7)
    x = rng.standard_normal((12000, 20)) * rng.lognormal(0, 0.7, (12000, 1))
    assert top_share_norm_null(x, sample=3000) == pytest.approx(top_share_norm_null(x, sample=12000), rel=0.05)


def test_partition_null_is_what_isotropic_clouds_have():
    rng = np.random.default_rng(8)
    partition_isotropy = registry["partition_isotropy"]
    values = [partition_isotropy(rng.standard_normal((500, 16))) for _ in range(40)]
    assert np.mean([value.null for value in values]) == pytest.approx(np.mean(values), abs=4 * np.std(values) * (2 / 40) ** 0.5)
    assert partition_isotropy(rng.standard_normal((500, 16)) + 1) < 5 * min(values)
