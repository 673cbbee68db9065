"""What saved statistics may hold: everything that a pass writes, and nothing that a metric would stumble over."""

import re

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.runs.states import mistake_in_statistics
from isoscope.runs.tensors import group_by_site, unpack_statistics
from isoscope.statistics.attention_statistics import AttentionStatistics
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.kernel import block_sums
from isoscope.statistics.sample import point_hashes
from isoscope.statistics.site_statistics import SiteStatistics
from tests.hostile.spoilt_arrays import CHANGES
from tests.runs.packing import pack, write_made_cell

NAMES = ["first", "body"]
B, T, D, H = 5, 4, 4, 2
CODES = np.tile(np.array([0, 1, 1, 1], dtype=np.int16), (B, 1))
UNIT = np.arange(B, dtype=np.uint64)
INDEX = np.tile(np.arange(T), (B, 1))
HASHES = point_hashes(0, np.repeat(UNIT, T), INDEX.ravel()).reshape(B, T)
LAST = np.array([True] * (B - 1) + [False])
"""The last document goes on in another batch."""


def _points():
    x = np.random.default_rng(0).standard_normal((B, T, D)).astype(np.float32)
    x[2, 2] = 0.0
    kept = SiteStatistics(D, NAMES, cosine=True, sample=8)
    parts = []
    for code in range(len(NAMES)):
        parts.append(block_sums(x, code == CODES))
        kept.moments[code].add(parts[-1], x[code == CODES])
    kept.groups.update(np.arange(B), parts, unit=UNIT.astype(np.int64), last=LAST)
    kept.sample.update(x.reshape(-1, D), HASHES.ravel(), np.repeat(UNIT, T), INDEX.ravel(), CODES.ravel())
    return kept


def _heads(h, seed):
    x = np.random.default_rng(seed).standard_normal((B, h, T, D)).astype(np.float32)
    kept = Heads(h, D, NAMES, sample=8)
    kept.update(x, CODES, np.arange(B), unit=UNIT.astype(np.int64), last=LAST)
    kept.draw(x, HASHES, UNIT, INDEX, CODES)
    return kept


def _rows():
    kept = AttentionStatistics(H, D, NAMES, median=True, histogram=True)
    names = ("entropy", "maximum", "minimum", "median", "mean", "sd", "first", "sees_first")
    rows = {name: np.full((B, H, T), 0.25) for name in names} | {"open": np.full((B, H, T), T), "received": np.full((B, H, T), 1.0)}
    assert kept.update(rows, CODES, np.arange(B)) == 0
    kept.count(np.ones(kept.histogram.shape, dtype=np.int64))
    return kept


@pytest.fixture(scope="module")
def sites():
    empty = SiteStatistics(D, NAMES, second=False, sample=0)
    empty.groups = None
    return {
        Site("encoder", "input_embedding"): _points(),
        Site("encoder", "hidden", 0): empty,
        Site("encoder", "hidden", 1): _points(),
        Site("encoder", "query", 1): _heads(H, 1),
        Site("encoder", "key", 1): _heads(1, 2),
        Site("encoder", "attention", 1): _rows(),
    }


@pytest.fixture
def arrays(sites):
    return pack(sites)


def said(arrays):
    return mistake_in_statistics(group_by_site(arrays))


def test_what_a_pass_writes(sites, arrays):
    assert said(arrays) == ""
    assert said(pack(sites, sample=False)) == ""
    assert {re.split("[./]", name)[-1] for name in arrays} >= {"points", "outer", "open_units", "histogram", "hashes"}
    again = pack(unpack_statistics(arrays))
    assert again.keys() == arrays.keys()
    assert all(np.array_equal(again[name], arrays[name]) for name in arrays)


HIDDEN, QUERY, KEY, ROWS = "encoder.hidden.1", "encoder.query.1", "encoder.key.1", "encoder.attention.1"


@pytest.mark.parametrize(
    ("name", "at", "value", "words"),
    [
        (f"{HIDDEN}/moments.body.counts", 1, -1, "moments.body.counts holds -1 points, 1 of them zero"),
        (f"{HIDDEN}/moments.body.counts", 1, 1 << 60, "moments.body.counts holds 1152921504606846976 points"),
        (f"{HIDDEN}/moments.body.counts", 1, 16, "moments.body.second.n counts 15 points of width 4"),
        (f"{HIDDEN}/moments.body.counts", 2, 16, "moments.body.counts holds 15 points, 16 of them zero"),
        (f"{HIDDEN}/moments.body.counts", 0, 5, "moments.body.counts holds the width 5"),
        (f"{HIDDEN}/moments.body.norms", 0, np.nan, "moments.body.norms holds NaN, infinity or numbers that no sum reaches"),
        (f"{HIDDEN}/moments.body.norms", 0, -1.0, "moments.body.norms holds lengths below zero"),
        (f"{HIDDEN}/moments.body.sums", (0, 1), np.inf, "moments.body.sums holds NaN, infinity or numbers that no sum reaches"),
        (f"{HIDDEN}/moments.body.sums", (1, 1), 99.0, "moments.body.sums holds more than its unit vectors add up to"),
        (f"{HIDDEN}/moments.body.second.outer", 0, 1e300, "moments.body.second.outer holds NaN, infinity or numbers that no sum reaches"),
        (f"{HIDDEN}/moments.body.cosine.n", 0, 15, "moments.body.cosine.n counts 15 points of width 4"),
        (f"{HIDDEN}/groups.counts", (0, 0, 0), 3.0, "its groups hold other points than its moments"),
        (f"{HIDDEN}/groups.units", 0, -1, "its groups hold counts below zero or beyond any pass"),
        (f"{HIDDEN}/groups.open_counts", (0, 0, 0), -1.0, "items that are not finished are counted twice or below zero"),
        (f"{HIDDEN}/sample.k", 1, 7, "its sample holds 8 points of 20, and has room for 7"),
        (f"{HIDDEN}/sample.k", 1, 1 << 50, "its samples would take "),
        (f"{HIDDEN}/sample.slice", 0, 2, "points of its sample are of no slice"),
        (f"{HIDDEN}/sample.points", (0, 0), np.nan, "sample.points holds NaN, infinity or numbers that no sum reaches"),
        (f"{HIDDEN}/slices.body", 0, 0, "its slices have no order"),
        (f"{QUERY}/sample.hashes", (0, 0), 0, "sample.hashes differs between heads"),
        (f"{QUERY}/moments.body.counts", (1, 1), 3, "moments.body.counts differs between heads"),
        (f"{ROWS}/e", 0, 3, "its rows of attention are of other heads than its queries"),
        (f"{ROWS}/sums", (0, 0, 0, 0), 0.5, "it holds rows below zero, or parts of rows"),
        (f"{ROWS}/sequences", (0, 0, 1), 9.0, "its sequences hold other rows than its slices"),
        (f"{ROWS}/histogram", (0, 0), -1, "histogram holds counts below zero or beyond any pass"),
    ],
)
def test_values_that_no_pass_writes(arrays, name, at, value, words):
    arrays[name] = arrays[name].copy()
    arrays[name][at] = value
    assert said(arrays).partition(": ")[2].startswith(words) or said(arrays).startswith(words)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (f"{HIDDEN}/moments.body.sums", lambda array: array[:, :3], "moments.body.sums has the shape (3, 3), and (3, 4) is expected"),
        (f"{HIDDEN}/moments.body.sums", lambda array: array.astype("f4"), "moments.body.sums holds float32"),
        (f"{HIDDEN}/moments.first.second.n", lambda array: array[:0], "moments.first.second.n has the shape (0,), and (2) is expected"),
        (f"{HIDDEN}/groups.products", lambda array: None, "it lacks groups.products"),
        (f"{HIDDEN}/sample.unit", lambda array: array[1:], "sample.unit has the shape (7,), and (8) is expected"),
        (f"{QUERY}/groups.counts", lambda array: array[:1], "groups.counts has the shape (1, 4, 2, 16), and (2, 4, 2, 16) is expected"),
        (f"{ROWS}/sums", lambda array: array[..., :-1], "sums has the shape (2, 2, 64, 15), and (any, 2, 64, 16) is expected"),
    ],
)
def test_shapes_and_types_that_no_pass_writes(arrays, name, change, words):
    changed = change(arrays.pop(name))
    assert said(arrays if changed is None else arrays | {name: changed}).partition(": ")[2] == words


@pytest.mark.parametrize("label", ["encoder", "encoder.hidden", "encoder.hidden.-1", "encoder.hidden.01", "a.b.1", ""])
def test_labels_of_no_site(sites, label):
    assert mistake_in_statistics({label: group_by_site(pack(sites))[HIDDEN]}).startswith(f"{label!r}: no ")


def test_queries_of_fewer_heads_than_their_rows(sites, arrays):
    few = pack({Site("encoder", "query", 1): _heads(1, 1)})
    assert said(arrays | few) == f"{QUERY}: its rows of attention are of other heads than its queries"
    assert said(arrays | pack({Site("encoder", "key", 1): _heads(3, 1)})) == f"{QUERY}: its keys are of other heads than its queries"


@pytest.mark.parametrize("label", ["encoder.input_embedding", HIDDEN, QUERY, ROWS])
def test_whatever_is_put_in_the_place_of_an_array_is_refused_or_read(sites, label):
    """The check itself stumbles over nothing, and what it lets through can be read."""
    whole = {name: array for name, array in pack(sites).items() if name.startswith(f"{label}/")}
    refused = 0
    for name in whole:
        for change in CHANGES:
            arrays = dict(whole)
            change(arrays, name)
            if said(arrays):
                refused += 1
            else:
                unpack_statistics(arrays)
    assert refused > 0.5 * len(whole) * len(CHANGES)


def test_a_cell_with_such_statistics_is_refused_where_it_is_read(sites, tmp_path):
    from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
    from isoscope.runs.run import Run
    from isoscope.runs.stored_cell import manifest_of
    from isoscope.runs.verify import verify

    run = Run(tmp_path / "run")
    run.prepare()
    bad = pack(sites)
    bad[f"{HIDDEN}/sample.points"] = bad[f"{HIDDEN}/sample.points"] * np.float32(np.nan)
    made = manifest_of({"weights": "w"}, {"model": "m"}, {}, "all")
    cell = write_made_cell(run, "0" * 24, made, make_table([], TABLE_COLUMNS), make_table([], SERIES_COLUMNS), bad.items)
    with pytest.raises(IsoscopeError, match=r"statistics.safetensors is damaged \('encoder.hidden.1': sample.points holds NaN"):
        (cell or run.cell("0" * 24)).statistics()
    assert any("sample.points holds NaN" in str(fault) for fault in verify(run.path))
