"""Where the numbers of a training go: the diary in the run, and loggers."""

import numpy as np
import pytest
import torch

import isoscope
from isoscope.core.table import TABLE_COLUMNS, make_table
from isoscope.runs.results import Results
from isoscope.runs.run import Run
from isoscope.watching.diary import MAX_FAILURES, Diary, name_values
from isoscope.watching.look import TrainingNumber
from isoscope.watching.probe import Probe
from tests.runs.interruptions import interrupted
from tests.watching.watched import Network, batches, failing, started, train, warned


class Kept:
    def __init__(self):
        self.got, self.closed = {}, False

    def log(self, step, values):
        self.got[step] = values
        torch.rand(3)  # a logger may draw, too

    def close(self):
        self.closed = True


def test_loggers_get_what_the_run_gets(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model, optimizer = started(lambda: Network(noise=0))
    kept = Kept()
    before = torch.get_rng_state()
    with isoscope.watch(model, every=2, data=batches()[0], out=tmp_path / "run", optimizer=optimizer, log=["tensorboard", kept]) as w:
        assert torch.equal(torch.get_rng_state(), before)
        train(model, optimizer, batches(2), w)
    assert kept.closed
    assert sorted(kept.got) == [0, 2]
    table = w.results().table()
    table = table[table["step"].eq(2) & table["policy"].eq("all")]

    def of(metric, kind, layer):
        return table[table["metric"].eq(metric) & table["kind"].eq(kind) & table["layer"].eq(layer)]["value"].mean()

    values = kept.got[2]
    assert values["two_nn/hidden_02"] == of("two_nn", "hidden", 2)
    assert values["attention_entropy/attention_01"] == of("attention_entropy", "attention", 1)
    assert values["gradient_norm/query_01"] == of("gradient_norm", "query", 1)
    assert values["training/learning_rate"] == 3e-3
    assert np.isfinite(list(values.values())).all()
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert set(events.Tags()["scalars"]) == set(values)
    for name, value in values.items():
        assert events.Scalars(name)[-1].value == pytest.approx(value, rel=1e-6)


def test_a_failure_is_told_once_and_kept_a_limited_number_of_times(tmp_path, monkeypatch):
    model, _ = started()
    with warned() as told, isoscope.watch(model, every=1, data=batches()[0], out=tmp_path / "run", taps="hidden") as w:
        monkeypatch.setattr(Probe, "look", failing(RuntimeError("planted")))
        for _ in range(MAX_FAILURES + 5):
            w.step()
    assert w.warnings == told
    assert [words.partition(" (")[0] for words in told] == ["Step 1 was not measured"]
    (kept,) = [found for cell in Run(tmp_path / "run").cells() if (found := cell.manifest["spec"].get("failures"))]
    assert [one["step"] for one in kept] == list(range(1, MAX_FAILURES + 1))
    monkeypatch.undo()
    with isoscope.watch(model, every=1, data=batches()[0], out=tmp_path / "run", taps="hidden", start=MAX_FAILURES + 5) as again:
        again.step(loss=0.5)
    (still,) = [found for cell in Run(tmp_path / "run").cells() if (found := cell.manifest["spec"].get("failures"))]
    assert still == kept


def test_a_diary_outlives_a_kill_while_it_is_being_replaced(tmp_path):
    """A resumed training finds the steps that were written before, whichever call of the replacement was the last."""
    columns = {"model": "net", "revision": "r", "step": None, "seed": 0, "modality": "batches", "family": "module"}
    for at in range(1, 1000):
        run = Run(tmp_path / str(at))
        diary = Diary(run, columns, "backbone", 0)
        diary.add(TrainingNumber(1, "loss", 3.0))
        diary.write(1)
        diary.add(TrainingNumber(2, "loss", 2.0))
        with interrupted("kill", at) as fault:
            diary.write(2)
        resumed = Diary(Run(run.path), columns, "backbone", 2)
        resumed.add(TrainingNumber(3, "loss", 1.0))
        resumed.write(3)
        (cell,) = Run(run.path).cells()
        steps = cell.rows()["step"].tolist()
        assert steps in ([1, 3], [1, 2, 3]), (at, fault.name)
        if not fault.happened:
            break
    assert steps == [1, 2, 3]
    assert at > 30


def test_a_long_diary_is_several_cells_and_a_resumed_training_drops_what_it_takes_again(tmp_path, monkeypatch):
    monkeypatch.setattr("isoscope.watching.diary.MAX_ROWS", 4)
    columns = {"model": "net", "revision": "r", "step": None, "seed": 0, "modality": "batches", "family": "module"}

    def write(diary, steps, value):
        for step in steps:
            diary.add(TrainingNumber(step, "loss", value))
            if step % 5 == 0:
                diary.add_failure(step, f"failed at {step}")
            diary.write(step)

    run = Run(tmp_path / "run")
    write(Diary(run, columns, "backbone", 0), range(1, 12), 1.0)
    assert sorted(len(cell.rows()) for cell in run.cells()) == [3, 4, 4]
    write(Diary(run, columns, "backbone", 6), range(7, 10), 2.0)
    rows = Results(run.path).table().sort_values("step")
    assert rows["step"].tolist() == list(range(1, 10))
    assert rows["value"].tolist() == [1.0] * 6 + [2.0] * 3
    failures = [failure for cell in run.cells() for failure in cell.manifest["spec"].get("failures", [])]
    assert [failure["step"] for failure in failures] == [5]


def test_names_of_values_average_heads_and_leave_out_other_policies():
    rows = [
        {"metric": "entropy", "kind": "attention", "layer": 3, "head": 0, "policy": "all", "value": 1.0},
        {"metric": "entropy", "kind": "attention", "layer": 3, "head": 1, "policy": "all", "value": 2.0},
        {"metric": "entropy", "kind": "attention", "layer": 3, "head": 1, "policy": "body", "value": 7.0},
        {"metric": "cosine", "kind": "hidden", "layer": 12, "head": None, "policy": "all", "value": float("nan")},
        {"metric": "loss", "kind": "hidden", "layer": None, "head": None, "policy": "all", "value": 4.0},
    ]
    assert name_values(make_table(rows, TABLE_COLUMNS)) == {"entropy/attention_03": 1.5, "training/loss": 4.0}
