"""The suites that come with isoscope: small, whole, and what their command makes."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import isoscope.training
from isoscope.models.naming.suite import open_suite
from isoscope.training.run_training import run_training

SUITES = Path(isoscope.training.__file__).parent / "suites"


@pytest.mark.parametrize("name", ["decoder", "encoder"])
def test_the_first_steps_come_out_again(name, tmp_path):
    made = json.loads((SUITES / name / "training.json").read_text("utf-8"))
    suite = run_training(made["name"], tmp_path / name, threads=1, quiet=True, checkpoints="0,20", stop=20, dtype=made["dtype"])
    again = json.loads((suite / "training.json").read_text("utf-8"))
    assert {key: value for key, value in again.items() if key != "checkpoints"} == {k: v for k, v in made.items() if k != "checkpoints"}
    for step in (0, 20):
        shipped, found = (load_file(root / f"seed-0/step-{step}/model.safetensors") for root in (SUITES / name, suite))
        assert shipped.keys() == found.keys()
        for key, tensor in shipped.items():
            scale = tensor.float().abs().max().clamp(min=1e-3)
            assert float((tensor.float() - found[key].float()).abs().max() / scale) < 1e-2, (step, key)
    first, last = (load_file(suite / f"seed-0/step-{step}/model.safetensors")["blocks.0.attention.query.weight"] for step in (0, 20))
    assert not torch.equal(first, last)


def test_they_are_small_and_whole():
    assert sum(path.stat().st_size for path in SUITES.rglob("*") if path.is_file()) < 24_000_000
    for name in ("decoder", "encoder"):
        found = open_suite(f"embedded:{name}").checkpoints
        steps = {seed: [one.step for one in found if one.seed == seed] for seed in (0, 1, 2)}
        assert len(steps[0]) >= 8
        assert steps[0][0] == 0
        assert steps[1] == steps[2] == [0, steps[0][-1]]


def test_twins_share_their_first_weights():
    first, second = (load_file(SUITES / name / "seed-0/step-0/model.safetensors") for name in ("decoder", "encoder"))
    assert all(torch.equal(tensor, second[key]) for key, tensor in first.items())
