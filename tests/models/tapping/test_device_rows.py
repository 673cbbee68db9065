"""Rows of attention reduced on a device, against a softmax of each row in NumPy."""

import numpy as np
import pytest
import torch

from isoscope.core.site import Site
from isoscope.models.tapping import device_rows
from isoscope.models.tapping.attention_call import AttentionCall
from isoscope.models.tapping.device_memory import DeviceMemory
from isoscope.models.tapping.device_rows import RowBank, histogram_edges
from isoscope.statistics.attention_statistics import EDGES, ROW_SUMS, SINK, AttentionStatistics, score_counts
from isoscope.statistics.jackknife_groups import GROUPS
from tests.models.tapping.small_layouts import NAMES, make_codes, make_layout

B, H, T, E, PADDING = 3, 2, 7, 4, 2
FEW = np.array([1, 4, 6])


def make_call(seed, mask):
    query, key = torch.from_numpy(np.random.default_rng(seed).standard_normal((2, B, H, T, E)))
    return AttentionCall(Site("decoder", "attention", 1), query, key, 1.5, None, mask, None, query, key)


def describe_row(scores):
    """The sums that one row adds, from its open scores; position 0 is among them."""
    n, p = len(scores), np.exp(scores - scores.max())
    p /= p.sum()
    entropy = -(p * np.log(p)).sum()
    row = {"rows": 1, "entropy": entropy, "many": n > 1, "normalised": entropy / np.log(n) if n > 1 else 0, "log_open": np.log(n)}
    row |= {"share": 1 / n, "maximum": p.max(), "minimum": p.min(), "median": 0, "mean": scores.mean(), "variance": scores.var()}
    row |= {"open": n, "score": scores.sum(), "score2": (scores**2).sum(), "first": p[0], "first_share": 1 / n}
    return np.array([row[name] for name in ROW_SUMS], dtype=float), p


@pytest.mark.parametrize("rows", [None, np.array([0, 2, 5])])
@pytest.mark.parametrize("at_once", [1 << 25, T * H * 2])
def test_sums_are_those_of_each_row(rows, at_once, monkeypatch):
    """Two layers of two heads each, a causal mask, and a sequence that ends in padding; all rows at once, or two at a time."""
    monkeypatch.setattr(device_rows, "SCORES", at_once)
    layout = make_layout(make_codes(B, T, padding=PADDING), unit=[5, 6, 5])
    mask = torch.ones(B, 1, T, T, dtype=torch.bool).tril()
    mask[-1, ..., T - PADDING :] = False
    memory = DeviceMemory(torch.device("cpu"))
    bank, calls = RowBank(memory, NAMES), [make_call(seed, mask) for seed in (0, 1)]
    firsts = [bank.add_channels(H) for _ in calls]
    bank.declare()
    memory.clear()
    bank.begin()
    for first, call in zip(firsts, calls, strict=True):
        bank.reduce(first, call, layout, rows, FEW)
    bank.end_batch()
    host = memory.read()
    for first, call in zip(firsts, calls, strict=True):
        heads = slice(first, first + H)
        got = bank.statistics(host, heads, AttentionStatistics(H, E, NAMES, histogram=True))
        sums, sequences, counted = np.zeros_like(got.sums), np.zeros_like(got.sequences), np.zeros((H, len(EDGES) - 1), dtype=int)
        scores = (1.5 * call.query @ call.key.mT).numpy()
        for i, j in np.ndindex(B, H):
            each, received = [], np.zeros(T)
            for row in range(T) if rows is None else rows:
                if layout.codes[i, row] >= 0:
                    values, p = describe_row(scores[i, j, row, : row + 1])
                    sums[j, layout.codes[i, row], layout.group[i]] += values
                    received[: row + 1] += p
                    each.append(values)
            n, share, top = len(each), sum(values[5] for values in each), received.max()
            highest, lowest = max(values[6] for values in each), min(values[7] for values in each)
            sequences[j, layout.group[i]] += [1, n, share, top, top > SINK * n, highest, lowest]
            for row in FEW[layout.codes[i, FEW] >= 0]:
                counted[j] += score_counts(scores[i, j, row, : row + 1])
        assert got.sums.shape == (H, len(NAMES), GROUPS, len(ROW_SUMS))
        np.testing.assert_allclose(got.sums, sums, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(got.sequences, sequences, rtol=1e-11, atol=1e-12)
        np.testing.assert_array_equal(got.histogram, counted)
        assert bank.bad(host, heads) == 0


def test_every_score_lies_in_the_bin_of_the_compiled_path():
    """The edges themselves, their neighbours in float32, both zeros, and scores beyond the last edge."""
    edges = EDGES.astype(np.float32)
    scores = np.concatenate([edges, np.nextafter(edges, np.float32(9e9)), np.nextafter(edges, np.float32(-9e9)), [0.0, -0.0, 1e9, -1e9]])
    scores = scores.astype(np.float32)
    bins = torch.bucketize(torch.from_numpy(scores), torch.from_numpy(histogram_edges()), right=True) - 1
    for score, place in zip(scores, bins.tolist(), strict=True):
        assert score_counts(np.array([score]))[place] == 1, score
    assert torch.bucketize(torch.tensor([device_rows.LOW]), torch.from_numpy(histogram_edges()), right=True).item() == 0
