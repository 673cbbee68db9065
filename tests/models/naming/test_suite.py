"""Which checkpoints a suite has, in folders, under patterns and by number; and which of those that were asked for are absent."""

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.models.naming.suite import Checkpoint, open_suite, open_suites


def places(suite):
    return [(one.seed, one.step) for one in suite.checkpoints]


def touched(root, *paths):
    for path in paths:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir() if not place.suffix else place.write_bytes(b"")
    return root


def refused(*pieces, **given):
    with pytest.raises(IsoscopeError) as error:
        open_suite(**given)
    said = str(error.value)
    assert "\n" not in said
    assert said[-1] in ".?"
    for piece in pieces:
        assert piece in said, said


LAYOUTS = {
    "train": (["seed-1/step-0", "seed-1/step-20", "seed-0/step-0", "training.json"], [(0, 0), (1, 0), (1, 20)]),
    "trainer": (["checkpoint-1000", "checkpoint-500", "tmp-checkpoint-1000", "runs/events.pt", "config.json"], [(None, 500), (None, 1000)]),
    "lightning": (
        ["lightning_logs/version_0/checkpoints/epoch=0-step=100.ckpt", "lightning_logs/version_0/checkpoints/last.ckpt"],
        [(None, 100)],
    ),
    "states": (["step_100.pt", "step_20.pt", "optimizer_step_100.pt", "config.json"], [(None, 20), (None, 100)]),
    "tensors": (["model_step=7.safetensors", "512.safetensors", ".step_9.safetensors"], [(None, 7), (None, 512)]),
    "multiberts": (["multiberts-seed_3-step_20k", "multiberts-seed_3-step_0k"], [(3, 0), (3, 20_000)]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_a_folder(tmp_path, layout):
    names, expected = LAYOUTS[layout]
    suite = open_suite(str(touched(tmp_path / layout, *names)))
    assert suite.name == layout
    assert places(suite) == expected


def test_steps_and_seeds_are_chosen_and_named_ones_must_exist(tmp_path):
    root = touched(
        tmp_path / "suite", *(f"seed-{seed}/step-{step}" for seed in (0, 1, 2) for step in (0, 10, 20, 30) if (seed, step) != (1, 20))
    )
    assert places(open_suite(str(root), steps="10-30:10", seeds="0-1")) == [(0, 10), (0, 20), (0, 30), (1, 10), (1, 30)]
    assert open_suite(str(root), steps="10-30:10", seeds="0-1").absent == ((1, 20),)
    assert open_suite(str(root), steps="10-30", seeds="0-1").absent == ()  # a range is what is there
    assert open_suite(str(root), steps="0", seeds="0,7").absent == ((7, 0),)
    refused("none of the checkpoints", "0, 10, 20, 30", spec=str(root), steps="7")


def test_a_pattern_of_paths(tmp_path):
    touched(tmp_path, *(f"multi-seed_{seed}-step_{step}k" for seed in (0, 1) for step in (0, 20)), "multi-seed_0-step_xk")
    suite = open_suite(f"{tmp_path}/multi-seed_{{seed}}-step_{{step}}k", steps="20", seeds="0-1")
    assert (suite.name, places(suite)) == ("multi", [(0, 20_000), (1, 20_000)])
    assert suite.checkpoints[1].spec == f"{tmp_path}/multi-seed_1-step_20k"


def test_a_pattern_whose_fields_touch_and_a_name_with_brackets(tmp_path):
    """What a shell would read otherwise stands for itself, all but a star; two of those are one."""
    root = tmp_path / "run[1]?"
    touched(root, "a5-step10", "b5-step20")
    for pattern in ("*{seed}-step{step}", "**{seed}-step{step}", "***{seed}-*{step}"):
        assert places(open_suite(f"{root}/{pattern}")) == [(5, 10), (5, 20)]
    touched(tmp_path / "whole", "s[7]-10", "s[7]-20", "s7-30")
    assert places(open_suite(f"{tmp_path}/whole/s[7]-{{step}}")) == [(None, 10), (None, 20)]
    refused("", spec=f"{tmp_path}/whole/{{step}}{{seed}}x")


def test_patterns_of_the_hub_need_no_hub_if_steps_are_given():
    suite = open_suite("google/multiberts-seed_{seed}-step_{step}k", steps="0,20,40-80:20", seeds="0-1")
    assert suite.name == "google/multiberts"
    assert places(suite) == [(seed, step * 1000) for seed in (0, 1) for step in (0, 20, 40, 60, 80)]
    assert suite.checkpoints[6] == Checkpoint("google/multiberts-seed_1-step_20k", 20_000, 1)
    pythia = open_suite("EleutherAI/pythia-70m@step{step}", steps="0,1-8:x2")
    assert pythia.name == "EleutherAI/pythia-70m"
    assert [one.spec.partition("@")[2] for one in pythia.checkpoints] == ["step0", "step1", "step2", "step4", "step8"]


def test_bad_suites_are_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "empty").mkdir()
    refused("holds no checkpoints", "checkpoint-500", spec=str(tmp_path / "empty"))
    refused("neither a folder", spec="EleutherAI/pythia-70m")
    refused("has {stpe}", spec="org/name@step{stpe}")
    refused("{step} once", spec="org/name-{seed}", seeds="1")
    refused("HF_HUB_OFFLINE", "--steps", spec="org/name@step{step}")
    refused("no seeds", spec="org/name@step{step}", steps="1", seeds="0")
    refused("no folder or file", spec=f"{tmp_path}/step{{step}}")
    refused("got 'x'", spec="org/name@step{step}", steps="0,x")
    refused("low to high", spec="org/name@step{step}", steps="9-1")
    refused("how far apart", spec="org/name@step{step}", steps="0-143000")
    refused("times 2 or more", spec="org/name@step{step}", steps="0-8:x2")
    refused("names none", spec="org/name@step{step}", steps=",")
    refused("both step 1 of", spec=str(touched(tmp_path / "twice", "step_1.pt", "step-1")))
    refused("embedded suite 'nothing'" if open_embedded() else "No suite comes with", spec="embedded:nothing")
    with pytest.raises(IsoscopeError, match="Two suites are called twins"):
        open_suites([str(touched(tmp_path / place / "twins", "step-1", "step-2")) for place in ("a", "b")])


def open_embedded():
    try:
        return open_suites(["embedded"])
    except IsoscopeError:
        return []
