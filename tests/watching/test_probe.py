"""One look at a model in training gives the numbers that measuring it would give."""

import numpy as np
import pytest
import torch
from torch import nn

import isoscope
from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.watching.look_writer import OF_ATTENTION, OF_STATES
from tests.watching.watched import D, Network, batches, started, train


def test_a_watched_step_is_what_measure_measures(tmp_path):
    model, optimizer = started(lambda: Network(noise=0))
    probe = batches()[:2]
    with isoscope.watch(model, every=4, data=probe, out=tmp_path / "run", name="mine", seed=7) as w:
        train(model, optimizer, batches(4), w)
    found = w.results().table(policy="every")
    found = found[found["step"].eq(4) & found["metric"].isin([*OF_STATES, *OF_ATTENTION])]
    whole = isoscope.measure(model, probe, tmp_path / "whole", name="mine", taps="hidden,attention", sample=1024, quiet=True)
    where = ["stack", "kind", "layer", "head", "policy", "metric"]
    both = found.merge(whole.table(policy="every"), on=where, suffixes=("", "_whole"))
    assert len(both) == len(found) > 100
    for column in ("value", "low", "high", "n", "d", "null"):
        assert np.array_equal(both[column].to_numpy(float), both[f"{column}_whole"].to_numpy(float), equal_nan=True), column
    assert set(found["model"]) == {"mine"}
    assert set(found["seed"]) == {7}


def test_what_is_kept_answers_other_questions(tmp_path):
    from isoscope.studies.training_dynamics.analysis import dynamics

    model, optimizer = started()
    with isoscope.watch(model, every=2, data=batches()[0], out=tmp_path / "run", store="sums") as w:
        train(model, optimizer, batches(4), w)
    assert w.results().table("isoscore")["step"].nunique() == 3
    paths = [cell.series() for cell in dynamics(tmp_path / "run").run.cells() if "experiment" in cell.manifest["identity"]]
    assert any(set(path.loc[path["name"].eq("mean_in_union"), "step"]) == {0, 2, 4} for path in paths)


def test_a_module_without_attention_is_watched_without(tmp_path):
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(D, D), nn.ReLU()) for _ in range(2))

        def forward(self, x):
            for block in self.blocks:
                x = x + block(x)
            return x

    with (
        pytest.warns(IsoscopeWarning, match="Plain is watched without its attention, as with taps='hidden': Plain has no attention"),
        isoscope.watch(Plain(), data=torch.randn(64, D), out=tmp_path / "run") as w,
    ):
        pass
    assert set(w.results().table(policy="every")["kind"]) == {"hidden"}
    with isoscope.watch(Plain(), data=torch.randn(64, D), out=tmp_path / "silent", taps="hidden"):
        pass
    with (
        pytest.raises(IsoscopeError, match="has no attention in its blocks"),
        isoscope.watch(Plain(), data=torch.randn(64, D), out=tmp_path / "asked", taps="hidden,attention"),
    ):
        pass
