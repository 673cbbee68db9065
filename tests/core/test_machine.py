"""Cores, memory and disk as the system reports them, on machines that are made up too; processes import nothing from the current folder."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from isoscope.core import machine
from isoscope.core.errors import IsoscopeError
from isoscope.core.machine import SAFE_PATH, _read_entry, check_disk, forget_peak, hide_current_folder, peak_memory, resident_memory
from tests.patience import run_process

GB = 1 << 30


def write_files(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))
    return root


def test_what_does_not_fit_on_the_disk_is_refused(tmp_path, monkeypatch):
    """The disk is that of the nearest folder that is there already."""
    asked = []
    monkeypatch.setattr("shutil.disk_usage", lambda path: asked.append(path) or SimpleNamespace(free=2000))
    check_disk(tmp_path / "new" / "run", 2000)
    with pytest.raises(IsoscopeError, match=r"^The run will write 3 KB and the disk that holds .*run has 2 KB free; keep less"):
        check_disk(tmp_path / "new" / "run", 3000)
    assert asked == [tmp_path.resolve()] * 2


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


def test_memory_of_the_machine(tmp_path):
    assert machine._left_on_machine(write_files(tmp_path, {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    2048 kB\n"})) == 2 << 20
    assert machine._left_on_machine(tmp_path / "nothing") > 0  # all that it has, where it does not say


@pytest.mark.parametrize(
    ("kinds", "top", "limit", "taken", "cached"),
    [
        ("", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        ("cpu,memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ],
)
def test_memory_of_control_groups(tmp_path, kinds, top, limit, taken, cached):
    """The tightest of those around a process; what is kept of files does not count as taken."""
    where = {"proc/self/cgroup": f"3:pids:/else\n4:{kinds}:/jobs/one\n"}
    outer = {f"{top}/jobs/{limit}": 4 * GB, f"{top}/jobs/{taken}": 3 * GB, f"{top}/jobs/memory.stat": f"anon 1\n{cached} {GB}\n"}
    inner = {f"{top}/jobs/one/{limit}": "max", f"{top}/jobs/one/{taken}": GB}
    assert machine._left_in_control_groups(write_files(tmp_path / "a", where | outer | inner)) == 2 * GB
    inner = {f"{top}/jobs/one/{limit}": 2 * GB, f"{top}/jobs/one/{taken}": GB, f"{top}/jobs/one/memory.stat": "anon 1\n"}
    assert machine._left_in_control_groups(write_files(tmp_path / "b", where | outer | inner)) == GB
    within = {f"{top}/{limit}": 2 * GB, f"{top}/{taken}": GB // 2, f"{top}/memory.stat": ""}  # as a container sees it
    assert machine._left_in_control_groups(write_files(tmp_path / "c", where | within)) == 3 * GB // 2


@pytest.mark.parametrize("said", ["", "rubbish\n", "0::/\n", "0::/../../..\n"])
def test_control_groups_without_limits(tmp_path, said):
    assert machine._left_in_control_groups(write_files(tmp_path, {"proc/self/cgroup": said})) == sys.maxsize
    assert machine._left_in_control_groups(tmp_path / "nothing") == sys.maxsize


def test_memory_left_under_a_limit_of_this_process():
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30,) * 2);"
    code += "from isoscope.core.machine import memory_left; print(memory_left())"
    left = int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
    assert 1 << 28 < left < 1 << 30
