"""Temporary names are unique and tell whether their writer has ended; only abandoned ones are found."""

import os
import subprocess
import sys
import time

import pytest

from isoscope.core.temporary import DAY, TEMPORARY, delete_path, find_abandoned, temporary_path, this_machine


@pytest.fixture(scope="module")
def ended():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def left_by(folder, machine, process, age=0.0):
    """A file that a writer left, written `age` seconds ago."""
    path = folder / f".cell.{machine}-{process}-00000000.tmp"
    path.write_text("half")
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_a_temporary_path_is_hidden_unique_and_next_to_its_target(tmp_path):
    first, second = (temporary_path(tmp_path / "cell") for _ in range(2))
    assert first != second
    assert first.parent == tmp_path
    name = TEMPORARY.fullmatch(first.name)
    assert (name["name"], name["machine"], name["process"]) == ("cell", this_machine(), str(os.getpid()))


def test_only_files_of_ended_or_distant_and_silent_writers_are_abandoned(tmp_path, ended):
    abandoned = {left_by(tmp_path, this_machine(), ended), left_by(tmp_path, "0" * 8, 1, age=DAY + 60)}
    left_by(tmp_path, this_machine(), os.getpid(), age=2 * DAY)  # its writer runs, however long it takes
    left_by(tmp_path, "f" * 8, ended)  # a process of this number may run on the other machine
    (tmp_path / "cell").write_text("finished")
    assert {path for path, _ in find_abandoned(tmp_path)} == abandoned
    assert {name["name"] for _, name in find_abandoned(tmp_path)} == {"cell"}


def test_a_folder_of_another_machine_is_as_old_as_its_newest_file(tmp_path):
    folder = tmp_path / f".cell.{'0' * 8}-1-00000000.tmp"
    folder.mkdir()
    (folder / "rows.parquet").write_text("half")
    os.utime(folder, (time.time() - 2 * DAY,) * 2)
    assert list(find_abandoned(tmp_path)) == []
    os.utime(folder / "rows.parquet", (time.time() - 2 * DAY,) * 2)
    assert [path for path, _ in find_abandoned(tmp_path)] == [folder]


def test_deleting_follows_no_link_and_ignores_what_is_gone(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    delete_path(tmp_path / "link")
    assert (tmp_path / "folder" / "file").exists()
    delete_path(tmp_path / "folder")
    delete_path(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []
