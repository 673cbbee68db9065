"""The experiment on an untrained block: its cells, fixed points and grids."""

import math

import numpy as np
import pandas as pd
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.runs.run import Run
from isoscope.studies.untrained_block.architectures import Architecture
from isoscope.studies.untrained_block.curves import CURVES, HISTOGRAM, NUMBERS
from isoscope.studies.untrained_block.experiment import (
    Network,
    Trial,
    describe_crossing,
    fixed_point,
    plan_networks,
    run_experiment,
    write_trained_norms,
)
from isoscope.studies.untrained_block.networks import Sizes, parse_variant
from tests.studies.untrained_block.small_networks import SMALL

pytestmark = pytest.mark.usefixtures("one_thread")


def test_fixed_point_of_post_ln_is_the_norm_and_pre_ln_has_none(tmp_path):
    sizes = Sizes(length=32, batch=2, vocabulary=500)
    trial = Trial(sizes, norms=(0.0, 1.0, 5.0, 25.0, 30.0), draws=3)
    run = Run(tmp_path)
    for norm in ("post", "pre"):
        assert run_experiment(run, Network(norm=norm), trial)
    post, pre = (cell.rows().set_index("metric") for cell in run.cells())
    assert post.loc["norm_fixed_point", "value"] == pytest.approx(math.sqrt(768 * (1 - 0.02**2)), abs=0.002)
    assert post.loc["norm_fixed_point", "low"] <= post.loc["norm_fixed_point", "value"] <= post.loc["norm_fixed_point", "high"]
    assert "not a property of the block" in post.loc["norm_fixed_point", "spec"]
    assert post.loc["output_norm_change", "value"] < 1e-5
    assert math.isnan(pre.loc["norm_fixed_point", "value"])
    assert "no fixed point" in pre.loc["norm_fixed_point", "spec"]
    assert set(post.index) == set(NUMBERS) - {"trained_norm"}


def test_fixed_point_by_hand():
    norms = np.array([0.0, 10.0, 20.0])
    assert fixed_point(norms, norms, np.array([14.0, 14.0, 14.0])) == pytest.approx(14.0)
    assert math.isnan(fixed_point(norms, norms, norms + 1))
    assert fixed_point(norms, norms + 1, np.array([1.0, 5.0, 5.0])) == 0


def test_a_cell_is_not_computed_twice_and_another_choice_is_another_cell(tmp_path):
    run, steps = Run(tmp_path), []
    trial = Trial(SMALL, norms=(0.0, 2.0), draws=2)
    assert run_experiment(run, Network(), trial, lambda: steps.append(1))
    assert len(steps) == 4
    assert not run_experiment(run, Network(), trial, lambda: steps.append(1))
    assert len(steps) == 4
    assert run_experiment(run, Network(), Trial(SMALL, norms=(0.0, 2.0), draws=2, seed=1))
    series = run.cells()[0].series()
    assert set(series["name"]) == {*CURVES, HISTOGRAM}
    assert set(series["seed"]) == {0, 1}
    histogram = series[series["name"].eq(HISTOGRAM) & series["seed"].eq(0) & series["weight"].eq(2.0)]
    width = np.diff(histogram["x"].to_numpy()).mean()
    assert histogram["y"].sum() * width == pytest.approx(1.0, rel=1e-3)


def test_draws_differ_and_repeat(tmp_path):
    trial = Trial(SMALL, norms=(1.0,), draws=2)
    for name in ("a", "b"):
        run_experiment(Run(tmp_path / name), Network(), trial)
    one, two = (Run(tmp_path / name).cells()[0].series() for name in ("a", "b"))
    pd.testing.assert_frame_equal(one, two)
    out = one[one["name"].eq("block_cosine") & one["layer"].eq(1)]["y"].to_numpy()
    assert out[0] != out[1]


def test_plan_of_a_grid():
    names = [network.name for network in plan_networks(["bert", "torch"], ["post", "pre"], ["full", "no-norm"], [1, 12, 2])]
    assert names == [
        "block bert post-LN",
        "block bert pre-LN",
        "block torch post-LN",
        "block torch pre-LN",
        "block bert, no norm",
        "block bert post-LN, 12 blocks",
        "block bert pre-LN, 12 blocks",
    ]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Network(init="brt"), "did you mean bert?"),
        (lambda: Network(norm="layer"), "--norm takes post, pre, rms"),
        (lambda: Network(depths=(0,)), "--depth counts blocks"),
        (lambda: parse_variant("full+mlp"), "did you mean"),
        (lambda: parse_variant("attention-only+mlp-only"), "cannot be joined"),
        (lambda: Trial(norms=(-1.0,)), "0 or above; got -1"),
        (lambda: Trial(norms=(math.nan,)), "0 or above"),
        (lambda: Trial(draws=0), "--draws must be at least 1"),
        (lambda: Sizes(d=10, heads=3), "a multiple of --heads"),
        (lambda: Sizes(length=1), "--length must be at least 2"),
        (lambda: Sizes(sigma=0.0), "--sigma must be above 0"),
        (lambda: Architecture("no-such-type"), "a type that transformers knows"),
        (lambda: Architecture("bert", (13,)), "bert has 12 blocks"),
    ],
)
def test_impossible_choices_are_refused_with_a_sentence(make, said):
    with pytest.raises(IsoscopeError, match=said):
        make()


def test_norms_of_a_trained_model_are_written_into_the_run(tmp_path):
    from tests.figures.made_table import made_table

    run = Run(tmp_path)
    table, _ = made_table(twin=False)
    write_trained_norms(run, table, "made")
    kept = run.cells()[0].rows()
    truth = table[table["metric"].eq("mean_norm") & table["kind"].eq("hidden") & table["policy"].eq("all")]
    assert set(kept["metric"]) == {"trained_norm"}
    assert sum(len(cell.rows()) for cell in run.cells()) == len(truth)
    with pytest.raises(IsoscopeError, match="holds no mean_norm"):
        write_trained_norms(run, table.iloc[:0], "empty")


def test_a_mean_that_meets_its_input_below_the_length_of_a_norm_is_a_crossing():
    norms = np.array([0.0, 5.0, 10.0])
    length = np.full((2, 3), 10.0)
    enters, leaves = np.tile([4.0, 6.4, 10.8], (2, 1)), np.tile([4.5, 6.0, 8.0], (2, 1))
    each = np.array([fixed_point(norms, a, b) for a, b in zip(enters, leaves, strict=True)])
    assert describe_crossing(norms, enters, leaves, each, length).startswith(
        "a crossing: over N = 0 to 10 the output's length runs from 4.5 to 8"
    )
    assert "its last norm makes every output 10.00 long" in describe_crossing(norms, enters, length, np.array([9.0, 9.0]), length)
