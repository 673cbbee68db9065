"""Twenty thousand cells cost four times what five thousand do, and a second run finds them done."""

import subprocess
import sys
import time

import pytest

import isoscope
from isoscope.core.machine import forget_peak, peak_memory
from isoscope.report import write_report
from tests.measuring import many_cells
from tests.measuring.many_cells import METRICS, checkpoints, sweep, without_flushing

LINEAR = 6
"""Times that four times as many may take: 4, and something for a machine that others use too."""


def timed(act):
    """Seconds of this process, whatever else the machine does."""
    began = time.process_time()
    found = act()
    return found, time.process_time() - began


def lives(root, count, *, page):
    """The seconds of each step in the life of a run of so many cells; the driver's peak is printed and held below a gigabyte."""
    data = root / "data.txt"
    root.mkdir()
    data.write_text("\n\n".join(["the of and"] * 8), "utf-8")
    suite = checkpoints(root / "suite", count)
    seconds = {}
    forget_peak()
    swept, seconds["measuring"] = timed(lambda: sweep(suite, data, root / "run"))
    _, seconds["judging"] = timed(swept.find_faults)
    again, seconds["planning"] = timed(lambda: sweep(suite, data, root / "run"))
    assert again.scheduler.succeeded == swept.scheduler.succeeded == count
    print(f"{count:,} cells: {peak_memory() / 1e6:.0f} MB at the peak of a sweep")
    assert peak_memory() < 1e9
    forget_peak()
    results = isoscope.open(root / "run")
    table, seconds["table"] = timed(results.table)
    series, seconds["series"] = timed(results.series)
    assert len(table) == count * 2 * len(METRICS)
    merged, seconds["merging"] = timed(lambda: isoscope.merge([root / "run"], root / "merged"))
    assert len(merged.manifests()) == count
    if page:
        _, seconds["page"] = timed(lambda: write_report(table, series, results.manifests(), root / "page.html", title="many"))
    print(f"{count:,} cells: {peak_memory() / 1e6:.0f} MB with tables, merging and page")
    return seconds


def test_a_second_run_measures_nothing_and_sees_a_checkpoint_that_was_changed(tmp_path, monkeypatch):
    without_flushing(monkeypatch)
    (tmp_path / "data.txt").write_text("the of and\n\nthe of", "utf-8")
    suite = checkpoints(tmp_path / "suite", 6)
    submitted = []
    monkeypatch.setattr(many_cells.Inventor, "submit", spied := spy(many_cells.Inventor.submit, submitted))
    assert spied is many_cells.Inventor.submit
    sweep(suite, tmp_path / "data.txt", tmp_path / "run")
    assert len(submitted) == 6
    sweep(suite, tmp_path / "data.txt", tmp_path / "run")
    assert len(submitted) == 6
    changed = suite / "seed-3" / "step-0" / "model.safetensors"
    changed.write_bytes((suite / "seed-4" / "step-0" / "model.safetensors").read_bytes())
    again = sweep(suite, tmp_path / "data.txt", tmp_path / "run")
    assert [task.reference.seed for task in submitted[6:]] == [3]
    assert again.scheduler.succeeded == 6


def spy(submit, submitted):
    def seen(self, task):
        submitted.append(task)
        return submit(self, task)

    return seen


@pytest.mark.slow
def test_twenty_thousand_cells_grow_linearly(tmp_path, monkeypatch):
    without_flushing(monkeypatch)
    few = lives(tmp_path / "few", 5_000, page=True)
    many = lives(tmp_path / "many", 20_000, page=True)
    for step, seconds in many.items():
        print(f"{step}: {few[step]:.1f} s of 5,000 cells, {seconds:.1f} s of 20,000")
        assert seconds <= LINEAR * few[step] + 1, step
    script = (
        "import sys, time; from pathlib import Path; from tests.measuring.many_cells import sweep; began = time.process_time();"
        "from isoscope.core.machine import peak_memory;"
        "root = Path(sys.argv[1]); swept = sweep(root / 'suite' / 'many', root / 'data.txt', root / 'run');"
        "print(swept.scheduler.succeeded, time.process_time() - began, peak_memory())"
    )
    said = subprocess.run([sys.executable, "-c", script, tmp_path / "many"], capture_output=True, text=True, check=True).stdout
    measured, seconds, memory = said.split()
    assert int(measured) == 20_000
    print(f"a second run in a process of its own: {float(seconds):.1f} s of CPU time, {int(memory) / 1e6:.0f} MB")
    assert float(seconds) < 10
    assert int(memory) < 1e9
