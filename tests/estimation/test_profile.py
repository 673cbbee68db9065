"""Numbers of a whole stack: their closed forms, that all layers share their draws, how often intervals cover, and what noise does."""

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.eigenvalues import top_part, top_part_linear
from isoscope.estimation.profile import bell_height, pairwise_differences, shared_documents
from isoscope.metrics import bell, bell_linear, share_range, share_range_linear, top_share, top_share_linear
from isoscope.statistics.jackknife_groups import GROUPS
from isoscope.statistics.kernel import block_sums
from isoscope.statistics.sample import Sample, item_hash, point_hashes
from isoscope.statistics.site_statistics import Moments, SiteStatistics

D = 6
UNITS = np.array([item_hash(str(i)) for i in range(400)], dtype=np.uint64)


def site(x, *, sample=4096, kept=None):
    """The cloud of documents (g, t, d), as a pass over a corpus makes it; `kept` (g, t) leaves points out."""
    g, t, d = x.shape
    kept = np.ones((g, t), dtype=bool) if kept is None else kept
    statistics = SiteStatistics(d, ["body"], sample=sample)
    sums = block_sums(x, kept)
    statistics.moments[0].add(sums, x[kept])
    statistics.groups.update((UNITS[:g] % np.uint64(GROUPS)).astype(np.int64), [sums], unit=UNITS[:g].astype(np.int64))
    if sample:
        owner, index = np.repeat(UNITS[:g], t), np.tile(np.arange(t), g)
        statistics.sample.update(x.reshape(-1, d), point_hashes(0, owner, index), owner, index, np.where(kept.ravel(), 0, -1))
    return Cloud.of(statistics, "body")


def shaped(base, shares):
    """A stack whose first direction has these shares of the variance of points that vary alike in every direction."""
    first = np.arange(base.shape[-1]) == 0
    scale = [np.where(first, (share / (1 - share) * (base.shape[-1] - 1)) ** 0.5, 1.0) for share in shares]
    return {layer: base * along for layer, along in enumerate(scale, 1)}


def documents(rng, count, length=12, shared=0.6, d=D):
    """Documents with a mean of their own."""
    return shared * rng.standard_normal((count, 1, d)) + (1 - shared**2) ** 0.5 * rng.standard_normal((count, length, d))


BELL = np.array([0.3, 0.3, 0.4, 0.6, 0.7, 0.7, 0.6, 0.4, 0.3, 0.3, 0.25, 0.2])


def test_the_four_numbers_are_functions_of_the_shares_by_block():
    stack = {layer: site(x) for layer, x in shaped(documents(np.random.default_rng(0), 60), BELL).items()}
    squared, linear = ([float(metric(stack[layer])) for layer in sorted(stack)] for metric in (top_share, top_share_linear))
    for profile, values in ((bell, squared), (bell_linear, linear)):
        assert profile(stack) == pytest.approx(np.mean(values[4:8]) - max(np.mean(values[:2]), np.mean(values[10:])), abs=1e-12)
    for profile, values in ((share_range, squared), (share_range_linear, linear)):
        assert profile(stack) == pytest.approx(max(values) - min(values), abs=1e-12)
    spectrum = stack[3].spectrum().values
    assert (top_part(spectrum), top_part_linear(spectrum)) == (float(top_share(stack[3])), float(top_share_linear(stack[3])))


@pytest.mark.parametrize("blocks", [6, 7, 8, 12, 13, 24, 30, 32])
def test_a_bell_read_backwards_is_as_high(blocks):
    shares = np.random.default_rng(blocks).random(blocks)
    assert bell_height(shares) == pytest.approx(bell_height(shares[::-1]), abs=1e-12)
    depth = (np.arange(blocks) + 0.5) / blocks
    assert bell_height((depth > 1 / 3) & (depth < 2 / 3)) == 1
    assert bell_height(np.ones(blocks)) == 0
    assert bell_height(np.linspace(0, 1, blocks)) < 0
    assert pairwise_differences(np.linspace(0, 1, blocks)).max() == 1


def test_every_layer_has_the_same_draws():
    """What moves all layers alike moves no difference: equal layers have an interval of no width, though each one's share is uncertain."""
    x = documents(np.random.default_rng(1), 40)
    same = {layer: site(x * layer + 100) for layer in range(1, 9)}
    assert top_share(same[1]).high - top_share(same[1]).low > 0.02
    for profile in (bell, share_range):
        found = profile(same)
        assert (abs(found), found.high - found.low) == (pytest.approx(0, abs=1e-9), pytest.approx(0, abs=1e-6))
    one, two = (site(x * scale).bootstrap_spectra() for scale in (1.0, 3.0))
    np.testing.assert_allclose(two[1], 9 * one[1], rtol=1e-5)
    other = site(documents(np.random.default_rng(2), 40)).bootstrap_spectra()
    assert not np.allclose(other[1], one[1], rtol=0.1)


def test_draws_do_not_depend_on_the_order_of_documents():
    x = documents(np.random.default_rng(3), 30)
    statistics = []
    for order in (np.arange(30), np.random.default_rng(4).permutation(30)):
        made = SiteStatistics(D, ["body"], sample=4096)
        made.moments[0].add(block_sums(x[order]), x[order].reshape(-1, D))
        owner, index = np.repeat(UNITS[:30][order], 12), np.tile(np.arange(12), 30)
        made.sample.update(x[order].reshape(-1, D), point_hashes(0, owner, index), owner, index, np.zeros(360, dtype=np.int16))
        statistics.append(Cloud.of(made, "body").bootstrap_spectra())
    np.testing.assert_allclose(statistics[0][1], statistics[1][1], rtol=1e-5)


def test_a_document_that_one_layer_lacks_is_left_out_of_all_draws():
    x, kept = documents(np.random.default_rng(5), 50), np.ones((50, 12), dtype=bool)
    kept[7] = False
    stack = {layer: site(points, kept=kept if layer == 3 else None) for layer, points in shaped(x, BELL).items()}
    found = bell(stack)
    assert found.note == "interval over the 49 of 50 documents that are in every layer's sample"
    whole = bell({layer: site(points) for layer, points in shaped(x, BELL).items()})
    assert not whole.note
    assert found.low == pytest.approx(whole.low, abs=0.03)
    assert len(shared_documents(cloud.require_sample().unit for cloud in stack.values())) == 49


def test_layers_with_different_documents_have_no_interval():
    x, kept = documents(np.random.default_rng(6), 50), np.ones((50, 12), dtype=bool)
    kept[:20] = False
    found = bell({layer: site(points, kept=kept if layer == 3 else None) for layer, points in shaped(x, BELL).items()})
    assert found > 0.2
    assert np.isnan(found.low)
    assert found.note == "no interval: only 30 of 50 documents are in every layer's sample"
    levels = {layer: bell.estimate_layer(site(points)) for layer, points in shaped(x, BELL).items()}
    levels[3] = bell.estimate_layer(site(x, kept=kept))
    assert bell.combine_layers(levels, 12).note == "no interval: the layers were drawn from different documents"


def test_what_cannot_be_said_is_not_said():
    x = documents(np.random.default_rng(7), 30)
    few = bell({layer: site(x) for layer in range(6)})
    assert (np.isnan(few), few.note) == (True, "needs at least 6 blocks, and this stack has 5")
    gap = bell({layer: site(x) for layer in (1, 2, 3, 5, 6, 7)})
    assert (np.isnan(gap), gap.note) == (True, "needs the spectrum of every block; of 4 there is none")
    bare = bell({layer: site(points, sample=0) for layer, points in shaped(x, BELL).items()})
    assert (bare > 0.2, np.isnan(bare.low), "needs a sample" in bare.note) == (True, True, True)
    two = bell({layer: site(points[:2]) for layer, points in shaped(x, BELL).items()})
    assert "at least three documents" in two.note
    equal = bell({layer: site(np.ones((9, 4, D)) if layer == 2 else x) for layer in range(1, 9)})
    assert (np.isnan(equal), gap.note.replace("4", "2") == equal.note) == (True, True)
    with pytest.raises(IsoscopeError, match="whole stack"):
        bell(site(x))


@pytest.mark.parametrize("height", [0.7, 0.3], ids=["bell", "flat"])
def test_coverage_of_the_bell(height):
    """The interval covers the bell of the population in nine draws of ten (92–96 % of 250 draws, 12 blocks, 60 and 200 documents)."""
    rng, draws = np.random.default_rng(8), 80
    shares = np.array([0.3, 0.3, height, height, 0.3, 0.3])
    truth, covered, above = float(bell_height(shares)), 0, 0
    for _ in range(draws):
        found = bell.combine_layers({i: level(layered(base, shares[i - 1])) for i, base in enumerate(wandering(rng, 60, 6), 1)}, 6)
        covered += found.low <= truth <= found.high
        above += found.low > truth
    assert covered >= 0.87 * draws
    assert above <= 0.08 * draws


def level(x):
    """What the bell keeps of a layer, without the statistics that it does not read."""
    points = x.reshape(-1, D)
    moments = Moments(D, second=True)
    moments.add(block_sums(points[None]), points)
    sample = Sample(D, len(points))
    owner, index = np.repeat(UNITS[: len(x)], x.shape[1]), np.tile(np.arange(x.shape[1]), len(x))
    sample.update(points, point_hashes(0, owner, index), owner, index, np.zeros(len(points), dtype=np.int16))
    return bell.estimate_layer(Cloud(moments, None, sample))


def wandering(rng, count, blocks):
    """Documents that change a little from block to block, as those of a residual stream do."""
    x = documents(rng, count)
    for _ in range(blocks):
        x = 0.9 * x + (1 - 0.81) ** 0.5 * documents(rng, count)
        yield x


def layered(base, share):
    return shaped(base, [share])[1]


def test_a_flat_stack_is_seen_to_be_flat():
    rng = np.random.default_rng(9)
    found = share_range({layer: site(layered(base, 0.5)) for layer, base in enumerate(wandering(rng, 380, 8), 1)})
    assert found.high < 0.1
    assert found.low <= found <= found.high


def test_that_the_maximum_is_inside_is_no_test():
    """Of curves over 13 layers that have no shape the maximum lies inside in 85 % (white noise) and in 68 % (random walks)."""
    noise = np.random.default_rng(10).standard_normal((40_000, 13))
    inside = [float(np.isin(curves.argmax(1), range(1, 12)).mean()) for curves in (noise, noise.cumsum(1))]
    assert inside == pytest.approx([11 / 13, 1 - 2 * 0.1612], abs=0.01)  # 0.1612 = C(24, 12)/2^24, by the arcsine law
    held = [float((bell_height(curves / np.ptp(curves, axis=1, keepdims=True)) > 0.05).mean()) for curves in (noise, noise.cumsum(1))]
    assert max(held) < 0.35
