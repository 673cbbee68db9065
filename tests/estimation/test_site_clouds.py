"""Clouds of attention and of sites: which heads, keys and slices they hold, and their intervals by the jackknife."""

import numpy as np
import pytest
from scipy import stats

from isoscope.core.site import Site
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.site_clouds import AttentionCloud, Clouds
from isoscope.statistics.attention_statistics import ROW_SUMS, SEQUENCE_SUMS, AttentionStatistics
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.site_statistics import SiteStatistics
from tests.statistics.made_attention import NAMES, H, filled

SLICES = ["body"]


def test_clouds_join_slices_and_heads():
    held = filled(0, 1)
    index = ROW_SUMS.index("entropy")
    assert held.slices_in_use == NAMES
    body, every = AttentionCloud.of(held, "body", 1), AttentionCloud.of(held, "all", 1)
    assert body.total("entropy") == pytest.approx(held.sums[1, 2, :, index].sum())
    assert every.total("entropy") == pytest.approx(held.sums[1, :, :, index].sum())
    assert AttentionCloud.of(held, "all").n == sum(AttentionCloud.of(held, "all", j).n for j in range(H))
    assert (every.d, every.scale) == (8, 0.5)
    assert [every.has(part) for part in ("attention", "medians", "scores", "queries_keys", "directions", "second")] == [True] * 3 + [
        False
    ] * 3


def test_a_policy_that_leaves_no_row_has_no_cloud():
    assert AttentionCloud.of(AttentionStatistics(H, 8, NAMES), "all") is None


def heads_of(centres: list[float]) -> Heads:
    """One head per centre, in two dimensions: sixteen items, each a group of its own, of points around (centre, 0)."""
    items = np.arange(16)
    heads = Heads(len(centres), 2, SLICES)
    x = np.random.default_rng(0).standard_normal((16, len(centres), 6, 2)) * 0.01
    x[..., 0] += np.array(centres)[None, :, None]
    heads.update(x, np.zeros((16, 6), int), items, unit=items, last=np.ones(16, bool))
    return heads


def rows_of(h: int) -> AttentionStatistics:
    """Rows of h heads; every head has as many rows as its number, plus one."""
    statistics = AttentionStatistics(h, 2, SLICES)
    statistics.sums[:, 0, 0, ROW_SUMS.index("rows")] = np.arange(h) + 1
    return statistics


@pytest.mark.parametrize(
    ("queries", "keys", "sees"), [(4, 4, [0, 1, 2, 3]), (4, 2, [0, 0, 1, 1]), (6, 2, [0, 0, 0, 1, 1, 1]), (3, 1, [0] * 3)]
)
@pytest.mark.parametrize("kind", ["", "cross_"])
def test_each_head_of_queries_has_the_keys_that_it_looks_at(kind, queries, keys, sees):
    """Grouped queries: neighbouring query heads share a key head. The cloud of all heads comes first and has no pair."""
    site = Site("decoder", f"{kind}attention", 3)
    sites = {site: rows_of(queries), Site("decoder", f"{kind}query", 3): heads_of([10.0 + j for j in range(queries)])}
    sites[Site("decoder", f"{kind}key", 3)] = heads_of([float(j) for j in range(keys)])
    clouds = list(Clouds(sites).of(site, "all"))
    assert [head for head, _ in clouds] == [None, *range(queries)]
    assert [cloud.n for _, cloud in clouds] == [sum(range(1, queries + 1)), *range(1, queries + 1)]
    assert not clouds[0][1].has("queries_keys")
    assert [round(cloud.keys.moments.mean[0]) for _, cloud in clouds[1:]] == sees
    assert [round(cloud.queries.moments.mean[0]) for _, cloud in clouds[1:]] == [10 + j for j in range(queries)]


def test_rows_without_queries_of_their_layer_have_no_pair():
    site = Site("decoder", "attention", 3)
    others = {Site("decoder", kind, 2): heads_of([1.0, 2.0]) for kind in ("query", "key")}
    clouds = Clouds({site: rows_of(2)} | others)
    assert [cloud.has("queries_keys") for _, cloud in clouds.of(site, "all")] == [False] * 3


def test_a_site_of_states_is_one_cloud_and_a_site_of_heads_one_per_head():
    states = SiteStatistics(3, NAMES)
    states.moments[2].update(np.random.default_rng(0).standard_normal((20, 3)))
    hidden, query = Site("encoder", "hidden", 1), Site("encoder", "query", 1)
    clouds = Clouds({hidden: states, query: heads_of([1.0, 5.0])})
    assert [(head, type(cloud), cloud.n) for head, cloud in clouds.of(hidden, "body")] == [(None, Cloud, 20)]
    assert list(Clouds({hidden: SiteStatistics(3, NAMES)}).of(hidden, "body")) == []
    assert [(head, round(cloud.moments.mean[0])) for head, cloud in clouds.of(query, "all")] == [(0, 1), (1, 5)]


def jackknife(value: float, without: np.ndarray) -> tuple[float, float]:
    """Student's interval of the delete-one-group jackknife, with pseudovalues written out."""
    g = len(without)
    pseudo = g * value - (g - 1) * without
    half = stats.t.ppf(0.975, g - 1) * pseudo.std(ddof=1) / g**0.5
    return value - half, value + half


def cloud_of_groups(sums: np.ndarray) -> AttentionCloud:
    """A cloud whose groups have these (rows, entropy)."""
    cloud = AttentionCloud(2, np.zeros((len(sums), len(ROW_SUMS))), np.zeros((len(sums), len(SEQUENCE_SUMS))))
    cloud.sums[:, 0], cloud.sums[:, ROW_SUMS.index("entropy")] = sums.T
    cloud.sequences[:, 0], cloud.sequences[:, 1], cloud.sequences[:, SEQUENCE_SUMS.index("top")] = 1, sums[:, 0], sums[:, 1]
    return cloud


def test_the_interval_of_rows_is_the_jackknife_over_groups_within_bounds():
    sums = np.random.default_rng(0).random((16, 2)) * [0, 9] + [10, 0]
    cloud = cloud_of_groups(sums)
    total = sums.sum(0)
    left = (total - sums)[:, 1] / (total - sums)[:, 0]
    low, high = jackknife(total[1] / total[0], left)
    value = cloud.rows_estimate(lambda s: s["entropy"] / s["rows"], (0.0, np.inf))
    assert value == pytest.approx((total[1] / total[0], low, high), rel=1e-6)
    bounded = cloud.rows_estimate(lambda s: s["entropy"] / s["rows"], (low + 0.01, high - 0.01))
    assert bounded[1:] == pytest.approx((low + 0.01, high - 0.01), rel=1e-6)
    of_sequences = cloud.sequences_estimate(lambda s: s["top"] / s["sequences"], (0.0, np.inf))
    assert of_sequences == pytest.approx((total[1] / 16, *jackknife(total[1] / 16, (total - sums)[:, 1] / 15)), rel=1e-6)


def test_estimates_of_means_are_of_the_mean_query_and_the_mean_key():
    site = Site("decoder", "attention", 1)
    sites = {site: rows_of(1), Site("decoder", "query", 1): heads_of([3.0]), Site("decoder", "key", 1): heads_of([-2.0])}
    (_, (_, cloud)) = Clouds(sites).of(site, "all")
    value, low, high = cloud.means_estimate(lambda q, k: (q * k).sum(-1), (-np.inf, np.inf))
    assert value == pytest.approx(cloud.queries.moments.mean @ cloud.keys.moments.mean, rel=1e-12)
    assert value == pytest.approx(-6, abs=0.1)
    sums, counts = ([getattr(side.groups, name)[0, 0] for side in (cloud.queries, cloud.keys)] for name in ("sums", "counts"))
    q, k = ((own.sum(0) - own) / (n.sum() - n)[:, None] for own, n in zip(sums, counts, strict=True))
    assert (low, high) == pytest.approx(jackknife(value, (q * k).sum(1)), rel=1e-6)
