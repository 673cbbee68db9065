"""Groups of items: any order of parts, any split, and policies joined after the pass, against brute force over documents."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from isoscope.estimation.cloud import Cloud
from isoscope.metrics import between_cosine, between_cosine_left_out, drift_norm, drift_ratio, mean_cosine, within_cosine
from isoscope.statistics.jackknife_groups import GROUPS, Groups
from isoscope.statistics.kernel import block_sums
from isoscope.statistics.sample import item_hash
from isoscope.statistics.site_statistics import Moments, SiteStatistics

D, SLICES = 5, 3


def documents(count, seed):
    """For each document its segments: points (t, d) and the slice of each."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        shared = rng.standard_normal(D)
        segments = []
        for _ in range(rng.integers(1, 5)):
            t = int(rng.integers(1, 7))
            points = rng.standard_normal((t, D)) + shared + 0.3
            points[rng.random(t) < 0.05] = 0
            segments.append((points, rng.integers(0, SLICES, t)))
        found.append(segments)
    return found


def feed(groups, batch, moments=None):
    """One update with segments (document, points, slices, whether it is its document's last)."""
    t = max(len(points) for _, points, _, _ in batch)
    x, codes = np.zeros((len(batch), t, D)), np.full((len(batch), t), -1)
    for i, (_, points, slices, _) in enumerate(batch):
        x[i, : len(points)], codes[i, : len(points)] = points, slices
    unit = np.array([item_hash(str(document)) for document, *_ in batch], dtype=np.uint64).astype(np.int64)
    group = (unit % GROUPS).astype(np.int64)
    parts = [block_sums(x, codes == s) if (codes == s).any() else None for s in range(SLICES)]
    groups.update(group, parts, unit=unit, last=np.array([last for *_, last in batch]))
    for s, part in enumerate(parts):
        if moments is not None and part is not None:
            moments[s].add(part, None)


def stream(docs, order):
    """Segments in this order, each flagged whether no other of its document comes after it."""
    left = {i: len(segments) for i, segments in enumerate(docs)}
    for i, j in order:
        left[i] -= 1
        yield i, *docs[i][j], left[i] == 0


def whole(docs, order=None, size=4):
    order = order or [(i, j) for i, segments in enumerate(docs) for j in range(len(segments))]
    groups, segments = Groups(D, SLICES), list(stream(docs, order))
    for start in range(0, len(segments), size):
        feed(groups, segments[start : start + size])
    return groups


def brute(docs, chosen):
    """Mean cosine over all pairs, those between documents and those within, under a policy."""
    directions, owner = [], []
    for i, segments in enumerate(docs):
        for points, slices in segments:
            for point, s in zip(points, slices, strict=True):
                if s in chosen and point.any():
                    directions.append(point / np.linalg.norm(point))
                    owner.append(i)
    u, owner = np.array(directions), np.array(owner)
    cosines, other = u @ u.T, ~np.eye(len(u), dtype=bool)
    same = owner[:, None] == owner[None]
    return cosines[other].mean(), cosines[~same].mean(), cosines[same & other].mean()


def brute_squared_mean(docs, chosen):
    """The mean of xᵢ·xⱼ over all pairs of points of different documents; points that are zero count."""
    points = [np.concatenate([points[np.isin(slices, chosen)] for points, slices in segments]) for segments in docs]
    owner = np.repeat(np.arange(len(docs)), [len(own) for own in points])
    x = np.concatenate(points)
    return (x @ x.T)[owner[:, None] != owner].mean()


def close(a, b, rel=1e-9):
    assert a.state().keys() == b.state().keys()
    for key, value in a.state().items():
        np.testing.assert_allclose(value, b.state()[key], rtol=rel, atol=rel * max(1.0, np.abs(value).max()), err_msg=key)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 25), st.integers(0, 99), st.integers(1, 9), st.integers(0, 10**6))
def test_parts_in_any_order_and_batch(count, seed, size, shuffle):
    docs = documents(count, seed)
    order = [(i, j) for i, segments in enumerate(docs) for j in range(len(segments))]
    order = [order[k] for k in np.random.default_rng(shuffle).permutation(len(order))]
    expected = whole(docs, size=1000)
    close(whole(docs, order, size), expected)
    assert expected.units.sum() == count


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 25), st.integers(0, 99), st.integers(0, 25))
def test_shards_of_documents_merge(count, seed, cut):
    docs = documents(count, seed)
    cut = min(cut, count)
    order = [(i, j) for i, segments in enumerate(docs) for j in range(len(segments))]
    left = whole(docs, [pair for pair in order if pair[0] < cut] or [(0, 0)]) if cut else Groups(D, SLICES)
    right = whole(docs, [pair for pair in order if pair[0] >= cut]) if cut < count else Groups(D, SLICES)
    close(left.merge(right), whole(docs))
    close(right.merge(left), whole(docs))


def test_open_items_survive_a_merge():
    """Two streams stopped between the parts of their items: merged and continued, they equal one pass."""
    docs = documents(8, 5)
    order = [(i, j) for i, segments in enumerate(docs) for j in range(len(segments))]
    segments = list(stream(docs, order))
    left, right = Groups(D, SLICES), Groups(D, SLICES)
    for segment in segments:
        if not segment[3]:
            feed(left if segment[0] % 2 else right, [segment])
    merged = left.merge(right)
    for segment in segments:
        if segment[3]:
            feed(merged, [segment])
    close(merged, whole(docs))


@pytest.mark.parametrize("chosen", [[0], [1, 2], [0, 2], [0, 1, 2]])
def test_policies_joined_after_the_pass(chosen):
    docs = documents(40, 3)
    everything, between, within = brute(docs, chosen)
    t = whole(docs).join(chosen).totals
    assert ((t.directions**2).sum() - t.alive) / (t.alive * (t.alive - 1)) == pytest.approx(everything, rel=1e-9)
    assert ((t.directions**2).sum() - t.within) / (t.alive**2 - t.pairs) == pytest.approx(between, rel=1e-9)
    assert (t.within - t.alive) / (t.pairs - t.alive) == pytest.approx(within, rel=1e-9)
    assert t.squared_mean == pytest.approx(brute_squared_mean(docs, chosen), rel=1e-9)
    points = np.concatenate([points[np.isin(slices, chosen)] for segments in docs for points, slices in segments])
    assert t.n == len(points)
    np.testing.assert_allclose(t.total, points.sum(0), rtol=1e-9)
    np.testing.assert_allclose(t.norm, np.linalg.norm(points, axis=1).sum(), rtol=1e-9)
    np.testing.assert_allclose(t.norm2, (points**2).sum(), rtol=1e-9)


@pytest.mark.parametrize(("policy", "chosen"), [("all", [0, 1, 2]), ("no-special", [1, 2]), ("body", [2])])
def test_policies_of_a_site(policy, chosen):
    docs = documents(40, 4)
    site = SiteStatistics(D, ["special", "first", "body"], second=False, sample=0)
    order = [(i, j) for i, segments in enumerate(docs) for j in range(len(segments))]
    for segment in stream(docs, order):
        feed(site.groups, [segment], site.moments)
    cloud = Cloud.of(site, policy)
    everything, between, within = brute(docs, chosen)
    assert mean_cosine(cloud) == pytest.approx(everything, rel=1e-9)
    assert between_cosine(cloud) == pytest.approx(between, rel=1e-9)
    assert within_cosine(cloud) == pytest.approx(within, rel=1e-9)
    assert within_cosine(cloud) > between_cosine(cloud)
    assert drift_norm(cloud) == pytest.approx(brute_squared_mean(docs, chosen) ** 0.5, rel=1e-9)
    assert drift_ratio(cloud) == pytest.approx(brute_squared_mean(docs, chosen) * cloud.n / cloud.moments.norm2, rel=1e-9)


def test_every_point_its_own_item():
    x = np.random.default_rng(6).standard_normal((100, D))
    x[7] = 0
    a, b = Groups(D), Groups(D)
    sums, group = block_sums(x[:, None]), np.arange(100) % GROUPS
    a.update(group, [sums])
    b.update(group, [sums], unit=np.arange(100))
    t, s = a.totals, b.totals
    for name in ("n", "alive", "within", "pairs", "norm", "norm2", "raw_within", "raw_pairs"):
        assert getattr(t, name) == pytest.approx(getattr(s, name), rel=1e-12), name
    assert t.alive == t.pairs == 99
    assert t.n == t.raw_pairs == 100


def test_state_keeps_what_is_open(tmp_path):
    docs = documents(6, 7)
    order = [(i, j) for i, segments in enumerate(docs) for j in range(len(segments))]
    segments = list(stream(docs, order))
    half = Groups(D, SLICES)
    feed(half, segments[: len(segments) // 2])
    assert not segments[len(segments) // 2 - 1][-1]  # so that a document is open
    assert len(half.state()["open_units"]) == 1
    save_file(half.state(), tmp_path / "g.safetensors")
    for again in (Groups.from_state(half.state()), Groups.from_state(load_file(tmp_path / "g.safetensors"))):
        close(again, half, rel=0)
        feed(again, segments[len(segments) // 2 :])
        close(again, whole(docs))
    assert half.state()["counts"].sum() < whole(docs).state()["counts"].sum()  # the original did not move


def test_the_series_leaves_one_group_of_documents_out_at_a_time():
    docs = documents(30, 5)
    groups = whole(docs).join([0, 1, 2])
    x, without, points = between_cosine_left_out(Cloud(Moments(D), groups))
    of = {i: item_hash(str(i)) % GROUPS for i in range(len(docs))}
    assert set(x) == {float(group) for group in of.values()}
    for group, value, count in zip(x, without, points, strict=True):
        kept = [segments for i, segments in enumerate(docs) if of[i] != group]
        assert value == pytest.approx(brute(kept, (0, 1, 2))[1])
        assert count == sum(len(own) for i, segments in enumerate(docs) if of[i] == group for own, _ in segments)
