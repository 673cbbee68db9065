"""What the host plans for a batch: the positions of each slice, the rows of the sample, and where parts of items are collected."""

import numpy as np
import torch

from isoscope.models.tapping.batch_plan import Planner, SampleRows
from isoscope.statistics.sample import Sample
from tests.models.tapping.small_layouts import make_codes, make_layout

CPU = torch.device("cpu")


def test_every_point_is_in_its_slice_once():
    codes = make_codes(4, 9, padding=3)
    plan = Planner(3, 8, 0, CPU, torch.float64).plan(make_layout(codes))
    assert plan.padded
    assert plan.counts.tolist() == [4, 4, 25]
    assert plan.padding.tolist() == (codes < 0).tolist()
    assert plan.points.tolist() == [[(row == code).sum() for code in range(3)] for row in codes]
    assert {code: outside.tolist() for code, outside in plan.dense.items()} == {2: np.flatnonzero(codes.ravel() != 2).tolist()}
    assert list(plan.rare) == [0, 1]
    for code, span in plan.rare.items():
        at = plan.rare_positions[span].tolist()
        assert at == np.flatnonzero(codes.ravel() == code).tolist()
        assert plan.rare_cells[span].tolist() == [position // 9 * 3 + code for position in at]
    whole = Planner(3, 8, 0, CPU, torch.float64).plan(make_layout(np.full((2, 5), 1)))
    assert (whole.dense, whole.rare, whole.padded) == ({1: None}, {}, False)


def test_the_rows_of_the_sample_hold_the_points_of_a_sample_on_the_host():
    """Two batches share hashes, so that items decide between equal ones."""
    k, d, rng = 12, 3, np.random.default_rng(1)
    rows, expected, buffer = SampleRows(k), Sample(d, k), np.full((k, d), np.nan, dtype=np.float32)
    for number, seed in enumerate((3, 4, 3, 5)):
        layout = make_layout(make_codes(3, 6, padding=2), unit=np.array([7, 8, 9]) - 3 * number, seed=seed)
        points = rng.standard_normal((18, d)).astype(np.float32)
        chosen, at = rows.choose(layout)
        assert len(set(at.tolist())) == len(at)
        buffer[at] = points[chosen]
        codes, item = layout.codes.ravel(), np.repeat(layout.item, 6)
        expected.update(points, layout.hashes.ravel(), item, layout.index.ravel(), codes)
    got = rows.sample(buffer)
    for name in ("hashes", "points", "unit", "index", "slice"):
        np.testing.assert_array_equal(getattr(got, name), getattr(expected, name), err_msg=name)


def test_a_sample_of_no_points_takes_none():
    rows = SampleRows(0)
    assert [part.tolist() for part in rows.choose(make_layout(make_codes(2, 4)))] == [[], []]


def test_items_of_one_sequence_need_no_room_between_batches():
    """A batch may hold thousands of short items; only those of which more is to come, or came before, are kept open."""
    planner = Planner(3, 8, 4, CPU, torch.float64)
    first = planner.plan(make_layout(np.full((403, 2), 2), [*range(400), 900, 901, 901], [True] * 400 + [False, False, True]))
    assert planner.places == 2, "900 continues, and 901 has two sequences"
    assert first.alone.tolist() == list(range(400))
    assert (first.parts.tolist(), first.place.tolist(), first.done.tolist()) == ([400, 401, 402], [0, 1, 1], [1])
    second = planner.plan(make_layout(np.full((2, 2), 2), [5, 900], [True, True]))
    assert (second.alone.tolist(), second.parts.tolist(), second.place.tolist(), second.done.tolist()) == ([0], [1], [0], [0])
    assert planner.units.sum() == 403
