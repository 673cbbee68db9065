"""The rows of attention against softmax written out in float64: masks, biases, grouped queries, chosen rows, hard scores."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from isoscope.core.site import Site
from isoscope.models.tapping import attention_rows as module
from isoscope.models.tapping.attention_call import AttentionCall
from isoscope.models.tapping.attention_rows import ablate_queries, attention_rows, count_scores
from isoscope.statistics.attention_statistics import EDGES

SITE = Site("decoder", "attention", 3)
B, H, T, E = 3, 4, 37, 8


def called(*, h_k=H, t=T, s=T, spread=1.0, offset=0.0, seed=0, dtype=torch.float32, **changed):
    g = torch.Generator().manual_seed(seed)
    query = spread * torch.randn(B, H, t, E, generator=g) + offset
    key = torch.randn(B, h_k, s, E, generator=g) + offset
    query, key = query.to(dtype), key.to(dtype)
    return AttentionCall(
        **(
            {"site": SITE, "query": query, "key": key, "scale": E**-0.5, "bias": None, "mask": None, "scores": None}
            | {"plain_query": query, "plain_key": key}
            | changed
        )
    )


def brute(call, counted=None, rows=None):
    """Every number of every row by plain loops over float64 softmax."""
    b, h, t, _ = call.query.shape
    s = call.key.shape[2]
    key = call.key.repeat_interleave(h // call.key.shape[1], 1)
    scores = call.query.double() @ key.double().transpose(2, 3) * call.scale
    if call.bias is not None:
        scores = scores + call.bias.double()
    if call.scores is not None:
        scores = call.scores.double()
    seen = torch.ones(b, h, t, s, dtype=torch.bool)
    seen = seen if call.mask is None else seen & call.mask
    seen = seen & (scores > -4000)
    seen = seen if counted is None else seen & counted[:, None, :, None]
    rows = range(t) if rows is None else rows.tolist()
    names = ("entropy", "maximum", "minimum", "median", "open", "mean", "sd", "first", "sees_first", "low", "high")
    found = {name: np.full((b, h, len(rows)), np.nan) for name in names}
    received, histogram = np.zeros((b, h, s)), np.zeros((h, len(EDGES) - 1))
    for i, j, r in np.ndindex(b, h, len(rows)):
        mask = seen[i, j, rows[r]].numpy()
        x = scores[i, j, rows[r]].numpy()
        found["open"][i, j, r] = mask.sum()
        found["sees_first"][i, j, r] = mask[0]
        if not mask.any():
            continue
        p = np.where(mask, np.exp(x - x[mask].max()), 0.0)
        p /= p.sum()
        q = p[mask]
        received[i, j] += p
        histogram[j] += np.histogram(x[mask].astype(np.float32), EDGES)[0]
        row = (-(q * np.log(np.maximum(q, 1e-300))).sum(), q.max(), q.min(), np.median(q), mask.sum(), x[mask].mean(), x[mask].std())
        for name, value in zip(names, (*row, p[0], mask[0], x[mask].min(), x[mask].max()), strict=True):
            found[name][i, j, r] = value
    return found | {"received": received, "histogram": histogram}


def agrees(call, *, tolerance=1e-5, **options):
    expected = brute(call, **options)
    counts_agree(call, expected.pop("histogram"), **options)
    found = attention_rows(call, median=True, **options)
    without_median = attention_rows(call, **options)  # whole heads at a time, if they are compiled
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=tolerance, atol=tolerance, err_msg=name)
        if name != "median":
            np.testing.assert_allclose(getattr(without_median, name), value, rtol=tolerance, atol=tolerance, err_msg=name)
    assert without_median.median is None
    return found


def counts_agree(call, expected, *, counted=None, rows=None):
    """Rounding may put a score at an edge on its other side."""
    b, _, t, _ = call.query.shape
    counts = count_scores(
        call, torch.arange(t) if rows is None else rows, torch.ones(b, t, dtype=torch.bool) if counted is None else counted
    )
    assert counts.sum() == expected.sum()
    assert np.abs(counts - expected).sum() <= 2e-3 * expected.sum()


@pytest.fixture(params=["compiled", "torch"], autouse=True)
def way(request, monkeypatch):
    """Both ways of reducing a block: as numba compiles it, and as torch does it where numba is not installed."""
    if request.param == "torch":
        monkeypatch.setattr(module, "load_compiled", lambda name: None)
    else:
        assert module.load_compiled("isoscope.models.tapping.attention_fused") is not None


CAUSAL = torch.ones(T, T).tril().bool()
PADDING = torch.arange(T) < torch.tensor([[T], [20], [1]])
g = torch.Generator().manual_seed(5)
RANDOM = torch.rand(B, H, T, T, generator=g) < 0.3
RELATIVE = torch.randn(1, H, T, T, generator=g)
SMALLEST = torch.finfo(torch.float32).min
FLOAT_MASK = torch.zeros(B, 1, 1, T).masked_fill(~PADDING[:, None, None], SMALLEST)
CASES = {
    "open": {},
    "one even row": {"t": 1, "s": 6},
    "cross": {"t": 5, "s": 50},
    "causal": {"mask": CAUSAL},
    "causal of four axes": {"mask": CAUSAL[None, None]},
    "keys padded": {"mask": PADDING[:, None, None]},
    "keys padded, rows written out": {"mask": PADDING[:, None, None].expand(B, H, T, T).clone()},
    "causal and padded": {"mask": CAUSAL & PADDING[:, None, None]},
    "a mask for each head": {"mask": RANDOM},
    "window": {"mask": CAUSAL & ~torch.ones(T, T).tril(-4).bool()},
    "relative bias": {"bias": RELATIVE},
    "bias and causal": {"bias": RELATIVE, "mask": CAUSAL},
    "bias that closes": {"bias": RELATIVE.masked_fill(~CAUSAL, SMALLEST)},
    "bias by sequence that closes": {"bias": RELATIVE + FLOAT_MASK},
    "float mask": {"bias": FLOAT_MASK},
    "float mask of −10000": {"bias": (-10000.0 * ~PADDING)[:, None, None]},
    "float causal mask": {"bias": torch.zeros(1, 1, T, T).masked_fill(~CAUSAL, -torch.inf)},
    "bias of each key": {"bias": RELATIVE[:, :, :1]},
    "grouped": {"h_k": 2},
    "one key head": {"h_k": 1, "mask": CAUSAL},
    "offset": {"offset": 4.0},
    "sharp": {"spread": 30.0},
    "sharp and causal": {"spread": 30.0, "mask": CAUSAL},
    "row of nothing": {"mask": CAUSAL & (torch.arange(T)[:, None] != 7)},
    "nothing at all": {"mask": torch.zeros(1, 1, 1, T, dtype=torch.bool)},
    "double": {"dtype": torch.float64, "offset": 30.0},
}


@pytest.mark.parametrize("block", [1 << 17, 100], ids=["one block", "blocks of two rows"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rows_equal_softmax_written_out(case, block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    agrees(called(**case), tolerance=2e-5 if case.get("spread") else 1e-5)


@pytest.mark.parametrize("rows", [None, torch.tensor([0, 3, 4, 19, 36])], ids=["all rows", "chosen rows"])
@pytest.mark.parametrize("mask", [None, PADDING[:, None, None], CAUSAL & PADDING[:, None, None]], ids=["open", "padded", "causal"])
@pytest.mark.parametrize("given", [False, True], ids=["computed", "given"])
def test_padding_rows_are_left_out(mask, rows, given):
    call = called(mask=mask)
    if given:
        call = replace(call, scores=call.query @ call.key.transpose(2, 3) * call.scale)
    found = agrees(call, counted=PADDING, rows=rows)
    r = torch.arange(T) if rows is None else rows
    assert bool((found.open > 0).eq(PADDING[:, None, r].expand(-1, H, -1)).all())
    np.testing.assert_allclose(found.received.sum(-1), PADDING[:, r].sum(1)[:, None].expand(-1, H), rtol=1e-6)


@pytest.mark.parametrize(
    "bias", [None, FLOAT_MASK, torch.zeros(1, 1, T, T).masked_fill(~CAUSAL, SMALLEST)], ids=["open", "padded", "causal"]
)
def test_given_scores_are_used_as_they_are(bias):
    scores = 3 + torch.randn(B, H, T, T, generator=torch.Generator().manual_seed(2)) + (0 if bias is None else bias)
    call = called(scores=scores, bias=bias)
    kept = scores.clone()
    agrees(call)
    assert bool(scores.eq(kept).all())


@pytest.mark.parametrize("mask", [PADDING[:, None, None], CAUSAL & PADDING[:, None, None]], ids=["padded", "causal"])
def test_padding_reaches_no_row_even_as_nan(mask):
    clean = called(mask=mask)
    call = called(mask=mask)
    for tensor in (call.query, call.key):
        tensor.transpose(1, 2)[~PADDING] = torch.nan
    a, b = (attention_rows(one, counted=PADDING, median=True) for one in (clean, call))
    for name in ("entropy", "maximum", "minimum", "median", "mean", "sd", "first", "received"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_half_precision_is_reduced_in_single():
    call = called(dtype=torch.bfloat16)
    agrees(replace(call, query=call.query.float(), key=call.key.float()))
    a, b = attention_rows(call), attention_rows(replace(call, query=call.query.float(), key=call.key.float()))
    np.testing.assert_array_equal(a.entropy, b.entropy)


def test_one_open_position():
    found = attention_rows(called(mask=torch.eye(T, dtype=torch.bool)), median=True)
    assert float(found.entropy.abs().max()) < 1e-6
    for value in (found.maximum, found.minimum, found.median):
        np.testing.assert_allclose(value, 1.0, rtol=1e-6)
    assert float(found.sd.max()) == 0
    assert float(found.first[..., 0].min()) == 1
    assert float(found.first[..., 1:].abs().max()) == 0


def test_huge_scores_and_tiny_probabilities():
    """One position takes all; the smallest probability is far below float32 and still right."""
    query = torch.tensor([[[[1.0, 0.0]]]])
    key = torch.tensor([[[[300.0, 0.0], [0.0, 1.0], [-100.0, 2.0]]]])
    found = attention_rows(called(query=query, key=key, scale=1.0, plain_query=query, plain_key=key))
    assert float(found.maximum) == 1
    assert float(found.entropy) == pytest.approx(0, abs=1e-4)
    assert math.log(float(found.minimum)) == pytest.approx(-400, abs=1e-3)
    assert float(found.high) == pytest.approx(300)
    for scale in (1e4, 1e6):
        found = attention_rows(called(scale=scale))
        assert bool(found.entropy.isfinite().all())
        assert bool((found.maximum <= 1).all())


def test_an_offset_of_all_scores_changes_no_probability():
    """Reference §2.14: removing the mean key moves the scores of a row together, and nothing else."""
    call = called(offset=3.0)
    moved = replace(call, key=call.key - call.key.mean(2, keepdim=True))
    a, b = attention_rows(call), attention_rows(moved)
    for name in ("entropy", "maximum", "minimum", "sd", "first", "received"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-5, atol=1e-6)
    assert float((a.mean - b.mean).abs().min()) > 1


@pytest.mark.parametrize(("sd", "share"), [(1, 0.92), (2, 0.71), (4, 0.34), (8, 0.13)])
def test_entropy_of_gaussian_scores(sd, share):
    """Reference §2.15."""
    g = torch.Generator().manual_seed(sd)
    query, key = torch.randn(1, 1, 512, 512, generator=g), sd * torch.randn(1, 1, 512, 512, generator=g)
    found = attention_rows(called(query=query, key=key, scale=512**-0.5))
    assert float(found.entropy.mean()) / math.log(512) == pytest.approx(share, abs=0.01)


def test_small_spread():
    """Reference §2.10: ln L − H ≈ s²/2."""
    found = attention_rows(called(spread=0.02, seed=3))
    np.testing.assert_allclose(math.log(T) - found.entropy, found.sd**2 / 2, rtol=0.1, atol=2e-6)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_nan_in_a_row_reaches_its_numbers(value):
    call = called()
    call.query[1, 2, 5, 0] = value
    found = attention_rows(call)
    assert np.argwhere(np.isnan(found.entropy.numpy())).tolist() == [[1, 2, 5]]


def test_without_parts_of_the_queries():
    call = called(offset=2.0, mask=CAUSAL, bias=RELATIVE)
    mean = call.query.mean((0, 2))
    largest = mean.abs().topk(2, 1).indices
    query = call.query - mean[None, :, None]
    agrees(ablate_queries(call, mean_query=mean))
    a = attention_rows(ablate_queries(replace(call, scores=torch.zeros(B, H, T, T)), mean_query=mean, dimensions=largest))
    for i in range(H):
        query[:, i, :, largest[i]] = 0
    b = attention_rows(replace(call, query=query))
    np.testing.assert_allclose(a.entropy, b.entropy, atol=1e-6)


def test_two_threads_find_the_same():
    call = called(t=600, s=600)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = attention_rows(call, median=True)
        torch.set_num_threads(2)
        two = attention_rows(call, median=True)
    finally:
        torch.set_num_threads(before)
    for name in ("entropy", "maximum", "minimum", "median", "mean", "sd", "received"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", ["open", "causal", "keys padded"])
def test_scores_of_a_few_rows_are_counted(case):
    call, rows = called(h_k=2, **CASES[case]), torch.tensor([0, 9, 30])
    expected = brute(call, counted=PADDING, rows=rows)["histogram"]
    for scores in (None, written_out(call)):
        counts_agree(replace(call, scores=scores), expected, counted=PADDING, rows=rows)


def written_out(call):
    """What softmax would be given."""
    scores = call.query @ call.key.repeat_interleave(2, 1).mT * call.scale
    return scores if call.mask is None else scores.masked_fill(~call.mask, SMALLEST)
