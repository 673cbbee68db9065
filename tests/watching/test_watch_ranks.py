"""Two real processes with gloo: all take part in a look, what they find is merged, and the training is the same."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import isoscope
from tests.patience import HANG_LIMIT
from tests.watching.watched import Network, batches

SCRIPT, ROOT = Path(__file__).with_name("ranks_script.py"), Path(__file__).parents[2]
WHERE = ["stack", "kind", "layer", "head", "policy", "metric"]


def run_ranks(scenario, folder):
    """What the two processes of a scenario wrote."""
    code = f"import sys, runpy; sys.path.insert(0, {str(ROOT)!r}); runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    processes = [subprocess.Popen([sys.executable, "-c", code, scenario, str(rank), str(folder)]) for rank in (0, 1)]
    assert [process.wait(HANG_LIMIT) for process in processes] == [0, 0]
    return [torch.load(folder / f"{scenario}-{rank}.pt") for rank in (0, 1)]


def measured_whole(results, folder):
    """What `measure` finds of the trained model in one process, over the probes of both in the order of ranks."""
    model = Network(noise=0)
    model.load_state_dict(results[0]["watched"])
    probe = batches()[0]
    data = [probe[:3], probe[3:]]
    return isoscope.measure(model, data, folder / "whole", name="net", taps="hidden,attention", sample=1024, quiet=True)


@pytest.mark.parametrize("scenario", ["fsdp", "ddp", "fsdp-same"])
def test_a_look_of_two_processes_is_that_of_one_and_the_training_is_the_same(tmp_path, scenario):
    results = run_ranks(scenario, tmp_path)
    for result in results:
        assert result["warnings"] == []
        assert result["losses"][0] == result["losses"][1]
        assert all(torch.equal(value, result["watched"][name]) for name, value in result["alone"].items())
        assert len(result["shapes"]) == len(list(Network().parameters()))
    table = isoscope.open(tmp_path / scenario).table(policy="every")
    ours, theirs = table[table["step"].eq(6)], measured_whole(results, tmp_path).table(policy="every")
    both = ours.merge(theirs, on=WHERE, suffixes=("", "_whole"))
    assert len(both) == (~ours["metric"].isin(["gradient_norm", "learning_rate", "training_loss"])).sum() > 500
    logarithms = both["metric"].eq("partition_isotropy")  # of a ratio, which is what is compared
    for column in ("value", "low", "high", "n", "d"):
        for name in {column, f"{column}_whole"} - {"n", "d", "n_whole", "d_whole"}:
            both[name] = both[name].mask(logarithms, np.exp(both[name]))
        expected = both[f"{column}_whole"].to_numpy(float)
        # As in the golden tests, a number below 0.1 counts as 0.1: the cosine of two means is a sum of terms of order 1 that cancel, each
        # rounded to float32 as the processor's product kernels have it, so its error does not shrink with it.
        np.testing.assert_allclose(both[column].to_numpy(float), expected, rtol=1e-6, atol=1e-7, err_msg=column)
    assert both.loc[both["kind"].eq("hidden"), "n"].max() == 8 * 12
    assert (set(table["model"]), set(table["step"])) == ({"net"}, {0, 2, 4, 6})
    gradients = ours[ours["metric"].eq("gradient_norm") & ours["layer"].eq(2)].set_index("kind")["value"]
    assert gradients.to_dict() == pytest.approx(results[0]["norms"], rel=1e-6)
    made = isoscope.open(tmp_path / scenario).manifests()
    assert {m["spec"]["architecture"] for m in made if "architecture" in m["spec"]} == {"Network"}


def test_looks_between_forward_backward_and_step_leave_divided_parameters_as_they_were(tmp_path):
    for result in run_ranks("fsdp-between", tmp_path):
        assert result["warnings"] == []
        assert result["losses"][0] == result["losses"][1]
        assert all(torch.equal(value, result["watched"][name]) for name, value in result["alone"].items())
    assert set(isoscope.open(tmp_path / "fsdp-between").table("mean_cosine")["step"]) == {0, 2, 4, 6, 8, 10, 12}


def test_a_bug_in_one_process_is_reported_once_and_the_others_stay_in_step(tmp_path):
    first, second = run_ranks("fsdp-bug", tmp_path)
    for result in (first, second):
        assert all(torch.equal(value, result["watched"][name]) for name, value in result["alone"].items())
    (words,) = first["warnings"]
    assert words.startswith("Step 4 was not measured (OtherRankError: on rank 1: ZeroDivisionError: planted)")
    assert "in failing\n" in words  # the line on rank 1
    assert "ZeroDivisionError: planted" in second["warnings"][0]
    assert set(isoscope.open(tmp_path / "fsdp-bug").table("mean_cosine")["step"]) == {0, 2, 6}


def test_processes_that_watch_differently_are_told_so(tmp_path):
    first, second = run_ranks("ddp-refused", tmp_path)
    same = "The processes of this training watch differently: "
    assert first["errors"][0] == second["errors"][0]
    assert first["errors"][0].startswith(f"{same}every is 2 on rank 0 and 3 on rank 1; give all the same arguments.")
    assert first["errors"][1] == second["errors"][1]
    assert first["errors"][1].startswith(f"{same}number of batches is 1 on rank 0 and 2 on rank 1")
    assert first["errors"][2].startswith("isoscope.watch was not called in all 2 processes of this training: rank 1 did not come within ")
