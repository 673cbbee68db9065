"""How much memory may still be taken, on machines that are made up, and under limits of this process."""

import subprocess
import sys

import pytest

from isoscope.core import memory

GB = 1 << 30


def machine(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))
    return root


def test_of_the_machine(tmp_path):
    assert memory._left_on_machine(machine(tmp_path, {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    2048 kB\n"})) == 2 << 20
    assert memory._left_on_machine(tmp_path / "nothing") > 0  # all that it has, where it does not say


@pytest.mark.parametrize(
    ("kinds", "top", "limit", "taken", "cached"),
    [
        ("", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        ("cpu,memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ],
)
def test_of_groups(tmp_path, kinds, top, limit, taken, cached):
    """The tightest of those around a process; what is kept of files does not count as taken."""
    where = {"proc/self/cgroup": f"3:pids:/else\n4:{kinds}:/jobs/one\n"}
    outer = {f"{top}/jobs/{limit}": 4 * GB, f"{top}/jobs/{taken}": 3 * GB, f"{top}/jobs/memory.stat": f"anon 1\n{cached} {GB}\n"}
    inner = {f"{top}/jobs/one/{limit}": "max", f"{top}/jobs/one/{taken}": GB}
    assert memory._left_in_control_groups(machine(tmp_path / "a", where | outer | inner)) == 2 * GB
    inner = {f"{top}/jobs/one/{limit}": 2 * GB, f"{top}/jobs/one/{taken}": GB, f"{top}/jobs/one/memory.stat": "anon 1\n"}
    assert memory._left_in_control_groups(machine(tmp_path / "b", where | outer | inner)) == GB
    within = {f"{top}/{limit}": 2 * GB, f"{top}/{taken}": GB // 2, f"{top}/memory.stat": ""}  # as a container sees it
    assert memory._left_in_control_groups(machine(tmp_path / "c", where | within)) == 3 * GB // 2


@pytest.mark.parametrize("said", ["", "rubbish\n", "0::/\n", "0::/../../..\n"])
def test_groups_that_say_nothing(tmp_path, said):
    assert memory._left_in_control_groups(machine(tmp_path, {"proc/self/cgroup": said})) == sys.maxsize
    assert memory._left_in_control_groups(tmp_path / "nothing") == sys.maxsize


def test_of_this_process():
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30,) * 2);"
    code += "from isoscope.core.memory import memory_left; print(memory_left())"
    left = int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
    assert 1 << 28 < left < 1 << 30
