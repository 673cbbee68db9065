"""Cores, memory and disk as the system reports them, and processes that import nothing from the current folder."""

import os
import sys

import pytest

import isoscope
from isoscope.measuring.machine import SAFE_PATH, _read_entry, forget_peak, hide_current_folder, peak_memory, resident_memory
from tests.patience import run_process


def test_a_cell_that_does_not_fit_on_the_disk_is_refused(small_models, texts, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(isoscope.IsoscopeError, match="The run will write"):
        isoscope.measure(str(small_models("bert")), str(texts), tmp_path / "run", quiet=True, max_items=3)


def test_the_peak_is_not_below_what_is_held():
    forget_peak()
    assert peak_memory() >= 0.9 * resident_memory() > 0


def test_a_process_that_is_started_does_not_search_the_current_folder(tmp_path, monkeypatch):
    """A folder that `sys.path` names in full stays; afterwards path and environment are as they were."""
    monkeypatch.delenv(SAFE_PATH, raising=False)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    before = sys.path[:]
    with hide_current_folder():
        assert "" not in sys.path
        assert str(tmp_path) in sys.path
        with hide_current_folder():
            pass
        ended = run_process([sys.executable, "-c", "import trap"], cwd=tmp_path)
        assert "No module named 'trap'" in ended.stderr
    assert sys.path == before
    assert SAFE_PATH not in os.environ


def test_an_entry_of_a_file_of_the_system(tmp_path):
    status = tmp_path / "status"
    status.write_text("VmPeak:  9 kB\nVmRSS:   7 kB\nVmRSSx: nothing\n", "ascii")
    assert _read_entry(status, "VmRSS") == 7
    assert _read_entry(status, "VmHWM") is None
    assert _read_entry(tmp_path / "missing", "VmRSS") is None
