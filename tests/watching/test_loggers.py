"""The trackers that `log` names: what the real packages keep, where they are installed, and what is called of each everywhere."""

import sys
import types

import pytest

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.watching.loggers import TRACKERS, open_loggers
from tests.watching.watched import batches, started, train

VALUES = {"two_nn/hidden_02": 9.5, "training/training_loss": 0.25}


class Kept:
    def log(self, step, values):
        pass

    def close(self):
        pass


def test_loggers_are_opened_by_name_or_taken_as_they_are(tmp_path):
    kept, other = Kept(), Kept()
    assert open_loggers(None, tmp_path) == []
    assert open_loggers([kept, [other]], tmp_path) == [kept, other]
    with pytest.raises(IsoscopeError, match="got 'tensorbord', did you mean tensorboard"):
        open_loggers("tensorbord", tmp_path)
    with pytest.raises(IsoscopeError, match="got int"):
        open_loggers(3, tmp_path)


@pytest.mark.parametrize("name", TRACKERS)
def test_a_tracker_that_is_not_installed_is_one_sentence(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    package = {"mlflow": "mlflow-skinny"}.get(name, name)
    with pytest.raises(IsoscopeError) as raised:
        open_loggers(name, tmp_path)
    assert str(raised.value) == f"log='{name}' needs the package {package}: pip install 'isoscope[{name}]'."


def test_tensorboard_keeps_every_number(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (logger,) = open_loggers("tensorboard", tmp_path)
    logger.log(3, VALUES)
    logger.log(6, VALUES)
    logger.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert {name: [(e.step, e.value) for e in events.Scalars(name)] for name in VALUES} == {
        name: [(3, value), (6, value)] for name, value in VALUES.items()
    }


class FakeRun:
    """The documented part of a run of Weights & Biases: rows are counted by calls without a step, and older steps are dropped."""

    def __init__(self):
        self.step, self.rows, self.axes, self.finished = 0, {}, {}, False

    def define_metric(self, name, step_metric=None, hidden=None):
        self.axes[name] = step_metric

    def log(self, values, step=None):
        if step is not None and step < self.step:
            return
        at = self.step if step is None else step
        self.rows.setdefault(at, {}).update(values)
        self.step = at + (step is None)

    def finish(self):
        self.finished = True


@pytest.mark.parametrize("counts", ["every step", "nothing", "all calls"])
def test_the_users_own_numbers_are_not_dropped_by_weights_and_biases(tmp_path, monkeypatch, counts):
    run = FakeRun()
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(run=run, init=None))
    (logger,) = open_loggers("wandb", tmp_path)
    for step in range(1, 31):
        for part in range(1 + 2 * (counts == "all calls")):
            run.log({f"loss{part}": step}, **({"step": step} if counts == "every step" else {}))
        if step % 10 == 0:  # three looks that were waiting come at once
            for look in (step - 2, step - 1, step):
                logger.log(look, {"rank": float(look)})
    logger.close()
    assert not run.finished
    assert run.axes["rank"] == "isoscope/step"
    losses = [row["loss0"] for row in run.rows.values() if "loss0" in row]
    assert losses == list(range(1, 31))
    looks = [(row["isoscope/step"], row["rank"]) for row in run.rows.values() if "rank" in row]
    assert {look for look, _ in looks} >= {10, 20, 30}
    assert all(look == rank for look, rank in looks)


def test_a_run_that_isoscope_opens_is_closed(tmp_path, monkeypatch):
    run = FakeRun()
    given = {}
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(run=None, init=lambda **more: given.update(more) or run))
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    (logger,) = open_loggers("wandb", tmp_path)
    logger.log(100, VALUES)
    logger.log(50, VALUES)
    logger.close()
    assert given == {"project": "mine", "dir": str(tmp_path)}
    assert [row["isoscope/step"] for row in run.rows.values()] == [100, 50]
    assert run.finished


def watched(out, log):
    model, optimizer = started()
    with isoscope.watch(model, every=2, data=batches()[0], out=out, optimizer=optimizer, log=log, taps="hidden") as w:
        train(model, optimizer, batches(2), w)
        w.note(2, validation_loss=0.5)
    assert w.warnings == []
    table = w.results().table()
    value = table[table["metric"].eq("two_nn") & table["layer"].eq(2) & table["kind"].eq("hidden")].set_index("step")["value"]
    return value.to_dict()


def test_real_wandb(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.chdir(tmp_path)
    values = watched(tmp_path / "own", "wandb")
    assert wandb.run is None
    assert list((tmp_path / "own" / "wandb").glob("offline-run-*/*.wandb"))
    run = wandb.init(dir=str(tmp_path))
    values = watched(tmp_path / "joined", "wandb")
    assert wandb.run is run  # the user's run stays open
    summary = dict(run.summary)
    run.finish()
    assert summary["two_nn/hidden_02"] == pytest.approx(values[2])
    assert summary["training/validation_loss"] == 0.5
    assert summary["isoscope/step"] == 2


def test_real_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    values = watched(tmp_path / "own", "mlflow")
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("isoscope").experiment_id])
    assert mlflow.active_run() is None
    assert run.info.status == "FINISHED"
    assert {m.step: m.value for m in client.get_metric_history(run.info.run_id, "two_nn/hidden_02")} == pytest.approx(values)
    assert client.get_metric_history(run.info.run_id, "training/validation_loss")[0].value == 0.5
    with mlflow.start_run() as own:
        values = watched(tmp_path / "joined", "mlflow")
        assert mlflow.active_run().info.run_id == own.info.run_id
    assert {m.step: m.value for m in client.get_metric_history(own.info.run_id, "two_nn/hidden_02")} == pytest.approx(values)


def test_real_trackio(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    trackio = pytest.importorskip("trackio")
    values = watched(tmp_path / "own", "trackio")
    assert trackio.context_vars.current_run.get() is None
    own = trackio.init(project="mine", embed=False)
    joined = watched(tmp_path / "joined", "trackio")
    assert trackio.context_vars.current_run.get() is own
    trackio.finish()
    from trackio.sqlite_storage import SQLiteStorage

    for project, expected in (("isoscope", values), ("mine", joined)):
        (name,) = SQLiteStorage.get_runs(project)
        rows = SQLiteStorage.get_logs(project, name)
        assert {row["step"]: row["two_nn/hidden_02"] for row in rows if "two_nn/hidden_02" in row} == pytest.approx(expected)
        assert [row["training/validation_loss"] for row in rows if "training/validation_loss" in row] == [0.5]


def test_the_trainer_reports_to_its_trackers(tmp_path, monkeypatch):
    from transformers import Trainer, TrainingArguments

    from tests.watching.test_callbacks import ROWS, small_bert

    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "theirs"))
    quiet = {"save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "logging_strategy": "no", "max_steps": 2}
    for asked, given, expected in ((["tensorboard"], {}, True), ([], {}, False), (["tensorboard"], {"log": None}, False)):
        folder = tmp_path / f"{len(asked)}{len(given)}"
        callback = isoscope.WatchCallback(every=2, data={"input_ids": batches()[0]}, taps="hidden", **given)
        Trainer(small_bert(), TrainingArguments(folder, report_to=asked, **quiet), train_dataset=ROWS, callbacks=[callback]).train()
        assert (folder / "isoscope" / "tensorboard").is_dir() == expected
