"""The process that computes the numbers: it is isolated, keeps the order, and neither its end nor that of the training loses a cell."""

import os
import signal
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

import isoscope
from isoscope.core.errors import IsoscopeWarning
from isoscope.runs.run import Run
from isoscope.watching import numbers_process
from isoscope.watching.collapse import Limits
from isoscope.watching.look import Entry, Setting, TrainingNumber
from isoscope.watching.numbers_process import NumbersProcess
from tests.patience import run_process, wait_until
from tests.watching.watched import Network, batches, started, step_and_wait, train, warned

COLUMNS = {"model": "net", "revision": None, "step": None, "seed": None, "modality": "batches", "family": "module"}
OPTIONS = {"every": 1, "data": batches()[0], "taps": "hidden"}


@pytest.fixture
def process(tmp_path):
    made = NumbersProcess(Setting(tmp_path / "run", COLUMNS, "backbone", 0, Limits()))
    yield made
    made.close()


def loss(step):
    return Entry(step, None, [TrainingNumber(step, "training_loss", float(step))])


def test_entries_keep_their_order_and_wait_in_a_bounded_queue(process, monkeypatch):
    monkeypatch.setattr(numbers_process, "MAX_WAITING", 2)
    outcomes = []
    for step in range(20):
        process.submit(loss(step))
        assert len(process._waiting) <= 2
        outcomes += process.take_outcomes()
    outcomes += process.take_outcomes(wait=True)
    assert [(outcome.step, outcome.values) for outcome in outcomes] == [(s, {"training/training_loss": float(s)}) for s in range(20)]


def test_arrays_of_any_layout_arrive_as_they_were(tmp_path):
    arrays = [np.arange(12.0).reshape(3, 4).T, np.zeros((0, 3)), np.arange(5)[::2], np.ones(2, np.float32)]
    path = tmp_path / "pipe"
    with path.open("wb", buffering=0) as file:
        numbers_process._write(file, numbers_process._pack({"arrays": arrays, "text": "é"}))
        numbers_process._write(file, numbers_process._pack([1])[:-1])  # cut off
    with path.open("rb", buffering=0) as file:
        found = numbers_process._unpack(file)
        assert numbers_process._unpack(file) is None
    assert found["text"] == "é"
    assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(arrays, found["arrays"], strict=True))


def test_a_process_that_is_killed_is_reported_and_replaced(tmp_path):
    model, optimizer = started()
    with warned() as told, isoscope.watch(model, out=tmp_path / "run", optimizer=optimizer, **OPTIONS) as w:
        train(model, optimizer, batches(2), w)
        w.results()
        os.kill(w._process._process.pid, signal.SIGKILL)
        w._process._process.wait()
        train(model, optimizer, batches(1), w)
        w.results()
        train(model, optimizer, batches(2), w)
    assert [text.partition("; ")[0] for text in told] == [
        "The numbers of step 3 were lost: the process that computes the numbers was ended by signal 9"
    ]
    assert set(w.results().table("mean_cosine")["step"]) == {0, 1, 2, 4, 5}
    assert sorted(set(w.results().table("training_loss")["step"])) == [1, 2, 4, 5]


PLANTED = """
import sys
import pandas
from isoscope.metrics.cosine import mean_cosine

if "pytest" not in sys.modules:
    to_parquet = pandas.DataFrame.to_parquet

    def planted(self, *rest, **more):
        if len(self) > 5 and (self["step"] == 2).all():
            raise ZeroDivisionError("planted")
        return to_parquet(self, *rest, **more)

    pandas.DataFrame.to_parquet = planted
"""


def plugin(folder, monkeypatch, name, code):
    """Have a file of code imported with the metrics: in the process, and here if metrics were not imported before."""
    (folder / "plugins" / "metrics").mkdir(parents=True)
    (folder / "plugins" / "metrics" / f"{name}.py").write_text(code)
    monkeypatch.setenv("ISOSCOPE_PLUGINS", str(folder / "plugins"))


def test_a_bug_in_the_process_is_a_warning_with_its_traceback_and_the_training_is_the_same(tmp_path, monkeypatch):
    plugin(tmp_path, monkeypatch, "planted_metric", PLANTED)
    alone, optimizer = started()
    expected = train(alone, optimizer, batches(4))
    model, optimizer = started()
    with isoscope.watch(model, out=tmp_path / "run", optimizer=optimizer, **OPTIONS) as w:
        losses = train(model, optimizer, batches(1), w)
        with pytest.warns(IsoscopeWarning, match="ZeroDivisionError: planted") as told:
            losses += train_and_wait(model, optimizer, batches(4)[1:2], w)
        losses += train(model, optimizer, batches(4)[2:], w)
    assert losses == expected
    assert all(torch.equal(value, alone.state_dict()[name]) for name, value in model.state_dict().items())
    assert str(told[0].message).startswith("Step 2 was not measured (ZeroDivisionError: planted); the training continues.\nTraceback")
    assert "in planted\n" in str(told[0].message)
    assert set(w.results().table("mean_cosine")["step"]) == {0, 1, 3, 4}


def train_and_wait(model, optimizer, steps, w):
    losses = train(model, optimizer, steps)
    step_and_wait(w)
    return losses


UNTRUSTED = "import os\nopen(os.environ['ISOSCOPE_TEST_RAN'], 'a').write(__file__)\nraise SystemExit('code of the current folder ran')\n"


@pytest.fixture
def script(tmp_path, monkeypatch):
    """`script(text)`: run a script, not guarded against being imported, in a folder whose files would run if they were imported."""
    place = tmp_path / "untrusted"
    place.mkdir()
    for name in ("pandas", "pyarrow", "json", "sitecustomize", "isoscope"):
        (place / f"{name}.py").write_text(UNTRUSTED)
    (tmp_path / "scripts").mkdir()
    root = str(Path(__file__).parents[2])

    def run(text):
        path = tmp_path / "scripts" / "train.py"
        path.write_text(f"import sys\nsys.path[:0] = {[str(p) for p in sys.path if p]!r} + [{root!r}]\n" + textwrap.dedent(text))
        environment = os.environ | {"ISOSCOPE_TEST_RAN": str(tmp_path / "ran"), "OUT": str(tmp_path / "run")}
        ended = run_process([sys.executable, path], cwd=place, env=environment)
        assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
        return ended

    return run


BEGIN = """
    import os, signal, isoscope
    from tests.watching.watched import batches, started, train
    print("begun", flush=True)
    model, optimizer = started()
    w = isoscope.watch(model, every=1, data=batches()[0], out=os.environ["OUT"], optimizer=optimizer, taps="hidden")
    train(model, optimizer, batches(3), w)
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("", 0),  # never closed: the interpreter ends
        ("raise ValueError('of the training')", 1),
        ("if os.fork() == 0: sys.exit()\n    os.wait()", 0),  # a fork ends first, and leaves the watch to its parent
    ],
    ids=["left open", "training raises", "fork"],
)
def test_everything_is_written_however_the_training_ends(script, tmp_path, end, code):
    ended = script(BEGIN + f"    {end}\n")
    assert ended.returncode == code, ended.stderr
    assert ended.stdout == "begun\n"
    assert ("ValueError: of the training" in ended.stderr) == (code == 1)
    table = isoscope.open(tmp_path / "run").table()
    assert set(table.loc[table["metric"].eq("mean_cosine"), "step"]) == {1, 2, 3}
    assert set(table.loc[table["metric"].eq("training_loss"), "step"]) == {1, 2, 3}


def test_a_training_that_is_killed_leaves_whole_cells(script, tmp_path):
    ended = script(BEGIN + "    train(model, optimizer, batches(3), w)\n    os.kill(os.getpid(), signal.SIGKILL)\n")
    assert ended.returncode == -signal.SIGKILL
    run = Run(tmp_path / "run")
    wait_until(lambda: not list((tmp_path / "run" / "cells").glob(".*")) and len(run.cells()) >= 2, "the process to end")
    steps = sorted(cell.manifest["columns"]["step"] for cell in run.cells() if not cell.is_experiment)
    assert steps == list(range(1, 1 + len(steps)))
    assert all(len(cell.rows()) > 10 for cell in run.cells() if not cell.is_experiment)


SEEING = """
import os
import sys
import pandas
from isoscope.metrics.cosine import mean_cosine

if "pytest" not in sys.modules:
    to_parquet = pandas.DataFrame.to_parquet

    def seeing(self, *rest, **more):
        with open(os.environ["ISOSCOPE_TEST_SEEN"], "a") as file:
            print("torch" in sys.modules, repr(os.environ["CUDA_VISIBLE_DEVICES"]), os.environ["OMP_NUM_THREADS"], file=file)
        return to_parquet(self, *rest, **more)

    pandas.DataFrame.to_parquet = seeing
"""


def test_it_uses_no_accelerator_no_torch_and_one_thread(tmp_path, monkeypatch):
    plugin(tmp_path, monkeypatch, "seeing_metric", SEEING)
    monkeypatch.setenv("ISOSCOPE_TEST_SEEN", str(tmp_path / "seen"))
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    with isoscope.watch(Network(), out=tmp_path / "run", **OPTIONS):
        pass
    assert set((tmp_path / "seen").read_text().splitlines()) == {"False '' 1"}
