"""What "The Shape of Learning" is reproduced from: the checkpoints that exist, and sinks taken apart in every measurement."""

import pytest

from isoscope.claims import papers
from isoscope.core.user_input import NumberSelection
from isoscope.studies.reproduction.reproduce import Request, plan_reproduction

PAPER = papers["razzhigaev2024"]
PYTHIA = {0, *(2**i for i in range(10)), *range(1000, 144_000, 1000)}
"""The steps that Pythia was published at: 154 of them."""


def test_the_training_is_measured_at_checkpoints_that_were_published():
    """Every doubling at first, in which most happens, and then each ten thousand steps."""
    (training,) = (experiment for experiment in PAPER.experiments if experiment.name == "training")
    steps = NumberSelection.parse(training.steps, "steps").all_numbers()
    assert len(PYTHIA) == 154
    assert sorted(steps) == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, *range(1000, 143_000, 10_000)]
    assert set(steps) <= PYTHIA


def test_the_papers_own_training_is_one_command():
    (part,), missing = plan_reproduction(PAPER, Request(models="paper", data=("paper",), figure="training"), "run")
    assert not missing
    assert part.command == (
        "isoscope sweep 'EleutherAI/pythia-160m@step{step}' --steps 0,1-512:x2,1000-143000:10000 "
        "--data 'hf:LTCB/enwik8?config=enwik8&split=train' --split-body sink --out run"
    )


@pytest.mark.parametrize("models", ["embedded", "paper"])
def test_sinks_are_taken_apart_in_every_measurement(models):
    parts, missing = plan_reproduction(PAPER, Request(models=models), "run")
    assert not missing
    assert all("--split-body sink" in part.command for part in parts)
    names = [part.what for part in parts]
    assert len(names) == len(set(names)) == {"embedded": 2, "paper": 9}[models]


def test_a_figure_over_layers_is_drawn_from_decoders_and_encoders():
    parts, _ = plan_reproduction(PAPER, Request(models="paper", figure="local"), "run")
    assert [(part.experiment.name, part.kind) for part in parts] == [("decoders", "model")] * 5 + [("encoders", "model")] * 3
    assert PAPER.select_figures("local")[0].also == ("local_share", "local_share_excess")
