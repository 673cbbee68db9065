"""Whatever fails while a cell is written or replaced, and whenever: no finished cell is lost, and none is ever half there."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.core.temporary import this_machine
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import Cell
from isoscope.runs.verify import verify
from isoscope.runs.writing import is_whole_cell
from tests.runs.interruptions import KINDS, interrupted
from tests.runs.made_cells import IDENTITY, KEY, write_version

FILES = {"manifest", "rows", "series", "statistics"}


@pytest.fixture(scope="module")
def ended():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def versions_in(cell: Cell) -> set[float]:
    """The versions that rows, series and statistics of a cell say they are of: one, where they are of the same."""
    rows, series = cell.rows(), cell.series()
    (site,) = cell.statistics().values()
    points = site.sample.points
    assert len(rows) == 3 + rows["value"].iloc[0]
    return {*rows["value"], *series["y"], *points.ravel()}


def version_of(path) -> int:
    """Which version of its one cell a run holds; 0 where it has no cell."""
    cells = Run(path).cells()
    assert len(cells) <= 1
    if not cells:
        return 0
    (version,) = versions_in(cells[0])
    return int(version)


def check_advice(path) -> None:
    """Nothing is wrong with a run, and nothing that `verify` says to delete is the only copy of a cell."""
    for fault in verify(path):
        assert not fault.wrong, str(fault)
        only_copy = version_of(path) == 0 and os.path.isdir(fault.path) and is_whole_cell(type(path)(fault.path), KEY)
        assert fault.do.startswith("rename") if only_copy else True, str(fault)


def check_nothing_lies_about(path) -> None:
    (cell,) = (path / "cells").iterdir()
    assert {name.partition(".")[0] for name in os.listdir(cell)} == FILES
    assert len(os.listdir(cell)) == len(FILES)
    assert not [name for folder in (path, path / "partial") if folder.is_dir() for name in os.listdir(folder) if name.startswith(".")]


@pytest.mark.parametrize("before", [0, 1], ids=["write", "replace"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_at_any_call_loses_nothing_that_was_finished(tmp_path, monkeypatch, ended, kind, before):
    seen = set()
    for at in range(1, 1000):
        run = Run(tmp_path / str(at))
        if before:
            write_version(run, before)
        done = False
        with monkeypatch.context() as patch, interrupted(kind, at) as fault:
            patch.setattr(os, "getpid", lambda: ended)
            write_version(run, 2)
            done = True
        found = version_of(run.path)
        assert found == 2 if done else found in (before, 2), (at, fault.name)
        if (run.path / "cells").is_dir():
            check_advice(run.path)
        Run(run.path).prepare()
        assert version_of(run.path) in ((2,) if found == 2 else (before, 2)), (at, fault.name)
        write_version(Run(run.path), 3)
        assert version_of(run.path) == 3
        check_nothing_lies_about(run.path)
        seen.add(found)
        if not fault.happened:
            break
    else:
        pytest.fail("the failure always happened")
    assert at > 30
    assert seen == {before, 2}


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_at_any_call_leaves_the_saved_state_before_or_after(tmp_path, monkeypatch, ended, kind):
    for at in range(1, 200):
        run = Run(tmp_path / str(at))
        run.save_partial("k", {"items": 1}, {"x": np.full(9, 1.0)}.items)
        with monkeypatch.context() as patch, interrupted(kind, at) as fault:
            patch.setattr(os, "getpid", lambda: ended)
            run.save_partial("k", {"items": 2}, {"x": np.full(9, 2.0)}.items)
        cursor, arrays = run.load_partial("k")
        assert {*arrays["x"]} == {cursor["items"]} <= {1, 2}
        run.prepare()
        assert os.listdir(run.path / "partial") == ["k.safetensors"]
        if not fault.happened:
            break
    assert cursor["items"] == 2
    assert at > 5


def test_a_reader_next_to_a_writer_sees_whole_cells(tmp_path):
    run = Run(tmp_path / "run")
    write_version(run, 1)
    ended = threading.Event()

    def replace():
        try:
            for version in range(2, 80):
                write_version(run, version)
        finally:
            ended.set()

    writer, seen = threading.Thread(target=replace), []
    writer.start()
    reader = Run(tmp_path / "run")
    while not ended.is_set() or not seen:
        (cell,) = reader.cells()
        (version,) = set(cell.rows()["value"])
        assert not [fault for fault in verify(run.path) if fault.wrong]
        seen.append(version)
    writer.join()
    assert seen == sorted(seen)
    assert version_of(run.path) == 79
    check_nothing_lies_about(run.path)


def test_two_writers_of_one_cell(tmp_path):
    runs = [Run(tmp_path / "run") for _ in range(2)]
    threads = [
        threading.Thread(target=lambda run=run, first=first: [write_version(run, version) for version in range(first, 40, 2)])
        for first, run in enumerate(runs, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert version_of(tmp_path / "run") in (38, 39)
    assert not [fault for fault in verify(tmp_path / "run") if fault.wrong]


def test_a_whole_cell_that_was_only_not_renamed_is_taken_over(tmp_path, ended):
    run = Run(tmp_path / "run")
    write_version(run, 1)
    cell = run.path / "cells" / KEY
    hidden = cell.with_name(f".{KEY}.{this_machine()}-{ended}-00000000.tmp")
    cell.rename(hidden)
    (fault,) = verify(run.path)
    assert fault.do == f"rename it to {KEY} once nothing runs"
    run.prepare()
    assert version_of(run.path) == 1
    assert not hidden.exists()


def test_a_damaged_cell_is_not_taken_over(tmp_path, ended):
    run = Run(tmp_path / "run")
    write_version(run, 1)
    hidden = (run.path / "cells" / KEY).rename(run.path / "cells" / f".{KEY}.{this_machine()}-{ended}-00000000.tmp")
    raw = bytearray((hidden / "rows.parquet").read_bytes())
    raw[50] ^= 1
    (hidden / "rows.parquet").write_bytes(raw)
    run.prepare()
    assert os.listdir(run.path / "cells") == []


def test_what_a_process_of_another_container_is_writing_stays(tmp_path):
    """Two containers may both be process 1: neither may delete what the other is writing."""
    run = Run(tmp_path / "run")
    run.prepare()
    other = run.path / "cells" / f".{KEY}.ffffffff-{os.getpid()}-00000000.tmp"
    other.mkdir()
    run.prepare()
    assert other.is_dir()
    long_ago = os.stat(other).st_mtime - 2 * 86400
    os.utime(other, (long_ago, long_ago))
    run.prepare()
    assert not other.exists()


def test_a_cell_that_is_removed_is_not_seen_half(tmp_path, monkeypatch, ended):
    for at in range(1, 100):
        run = Run(tmp_path / str(at))
        write_version(run, 1)
        with monkeypatch.context() as patch, interrupted("kill", at) as fault:
            patch.setattr(os, "getpid", lambda: ended)
            run.remove(Cell(run.path / "cells" / KEY))
        assert version_of(run.path) in (0, 1)
        run.prepare()
        run.remove(Cell(run.path / "cells" / KEY))
        assert os.listdir(run.path / "cells") == []
        if not fault.happened:
            break
    assert at > 5


def test_names_of_new_folders_are_on_the_disk_too(tmp_path, monkeypatch):
    """After a power cut a folder whose parent was not flushed is gone, with all that was flushed inside of it."""
    flushed, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (flushed.append(os.readlink(f"/proc/self/fd/{handle}")), real(handle))[1])
    run = Run(tmp_path / "runs" / "run")
    write_version(run, 1)
    run.save_partial("k", {"items": 1}, {"x": np.zeros(3)}.items)
    folders = {tmp_path, tmp_path / "runs", run.path, run.path / "cells", run.path / "partial"}
    assert {str(folder) for folder in folders} <= set(flushed)
    assert any(KEY in path and path.endswith(".tmp") for path in flushed), "the cell's own folder"


def test_a_cell_that_kept_as_much_stays(tmp_path):
    run = Run(tmp_path / "run")
    write_version(run, 1)
    write_version(run, 2, replace=False)
    assert version_of(run.path) == 1


def test_a_file_in_the_place_of_a_cell_is_said_to_be_in_the_way(tmp_path):
    run = Run(tmp_path / "run")
    run.prepare()
    (run.path / "cells" / KEY).write_text("mine")
    with pytest.raises(IsoscopeError, match="Cannot write to"):
        write_version(run, 1)
    assert (run.path / "cells" / KEY).read_text() == "mine"


def test_a_replaced_cell_is_adopted_by_another_run(tmp_path):
    run, other = Run(tmp_path / "run"), Run(tmp_path / "other")
    for version in (1, 2):
        write_version(run, version)
    other.copy_cell(run.cell(KEY))
    assert version_of(other.path) == 2
    assert sorted(os.listdir(other.path / "cells" / KEY)) == ["manifest.json", "rows.parquet", "series.parquet", "statistics.safetensors"]
    assert other.cell(KEY).manifest["identity"] == IDENTITY


@pytest.mark.parametrize("damage", ["{", '{"format": 1}'])
def test_a_damaged_cell_can_be_replaced(tmp_path, damage):
    run = Run(tmp_path / "run")
    write_version(run, 1)
    (run.path / "cells" / KEY / "manifest.json").write_text(damage)
    write_version(run, 2)
    assert version_of(run.path) == 2
    check_nothing_lies_about(run.path)
