"""What happens in the process that computes the numbers: every part may fail by itself, and is reported."""

import dataclasses

import pytest

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.runs.run import Run
from isoscope.watching import look_writer
from isoscope.watching.collapse import Alarm
from isoscope.watching.diary import Diary
from isoscope.watching.look import Entry, TrainingNumber
from isoscope.watching.look_writer import LookWriter
from isoscope.watching.numbers_process import NumbersProcess
from tests.watching.watched import batches, failing, started

ERRORS = [RuntimeError("planted"), MemoryError("planted"), OSError(28, "planted"), IsoscopeError("planted")]
PARTS = {
    "writing a cell": (Run, "write_cell"),
    "metrics": (look_writer, "tables"),
    "the alarm": (Alarm, "find_collapse"),
    "the diary": (Diary, "write"),
    "a row of the diary": (Diary, "add"),
    "names for loggers": (look_writer, "name_values"),
}


@pytest.fixture(scope="module")
def handed_over(tmp_path_factory):
    """What a real watch hands to its process: the setting, and the entry of each of four looks."""
    entries, settings = [], []

    class Recording(NumbersProcess):
        def __init__(self, setting):
            settings.append(setting)
            super().__init__(setting)

        def submit(self, entry):
            entries.append(entry)
            super().submit(entry)

    model, _ = started()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("isoscope.watching.watch.NumbersProcess", Recording)
        with isoscope.watch(model, every=1, data=batches()[0], out=tmp_path_factory.mktemp("watched"), taps="hidden") as w:
            for loss in (3.0, 2.0, 1.0):
                w.step(loss=loss)
    return settings[0], entries


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_part_that_fails_is_reported_and_the_others_are_done(tmp_path, monkeypatch, handed_over, part, error):
    setting, (first, second, third, last, rest) = handed_over
    writer = LookWriter(dataclasses.replace(setting, run=tmp_path / "run"))
    assert not writer.write(first).problems
    with monkeypatch.context() as patch:
        patch.setattr(*PARTS[part], failing(error))
        outcome = writer.write(second)
    problem = outcome.problems[0]
    assert problem.step == 1
    assert problem.error.args == error.args
    if isinstance(error, IsoscopeError):
        assert problem.text.endswith(": planted")
    else:
        assert "the training continues" in problem.text
        assert "Traceback (most recent call last)" in problem.text
        assert "in act\n" in problem.text  # the line that failed
    later = [writer.write(entry) for entry in (third, last, rest)]
    assert not any(outcome.problems for outcome in later)
    assert "mean_cosine/hidden_02" in later[1].values
    table = isoscope.open(tmp_path / "run").table()
    assert set(table.loc[table["metric"].eq("mean_cosine"), "step"]) >= {0, 2, 3}
    losses = table[table["metric"].eq("training_loss")].set_index("step")["value"]
    assert losses[2] == 2.0
    assert losses[3] == 1.0
    kept = [failure for cell in Run(tmp_path / "run").cells() for failure in cell.manifest["spec"].get("failures", [])]
    assert kept == [{"step": entry.step, "words": entry.text} for entry in outcome.problems]


def test_numbers_of_a_step_without_a_cell_wait_for_the_next_one(tmp_path, handed_over):
    setting, (first, second, *_) = handed_over
    writer = LookWriter(dataclasses.replace(setting, run=tmp_path / "run"))
    writer.write(first)
    outcome = writer.write(Entry(1, None, [TrainingNumber(1, "training_loss", 9.0)], [(1, "it failed")]))
    assert outcome.values == {"training/training_loss": 9.0}
    run = isoscope.open(tmp_path / "run")
    assert "training_loss" not in set(run.table()["metric"])
    assert [m["spec"]["failures"] for m in run.manifests() if "failures" in m["spec"]] == [[{"step": 1, "words": "it failed"}]]
    writer.write(second)
    assert run.table("training_loss")["value"].tolist() == [9.0, 3.0]
