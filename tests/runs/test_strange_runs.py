"""Runs of strangers: only regular files that a manifest names are read, and nothing that lies outside of the run."""

import json
import os
import shutil

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.core.progress import Progress
from isoscope.measuring.sweep_log import Ledger
from isoscope.models.naming.suite import Suite
from isoscope.report.serving import state_of
from isoscope.runs.merging import merge
from isoscope.runs.results import Results
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import seal_manifest
from isoscope.runs.verify import size_of, verify
from tests.cli.calling import isoscope, process
from tests.runs.made_cells import write_measured

FILES = ("rows.parquet", "series.parquet", "statistics.safetensors")


@pytest.fixture
def run(tmp_path):
    """A run of one cell that kept everything."""
    return write_measured(tmp_path / "run", "net", 0).path


@pytest.fixture
def cell(run):
    (found,) = (run / "cells").iterdir()
    return found


@pytest.fixture
def outside(tmp_path):
    """A cell in a run of somebody else, whose model has a name of its own."""
    (found,) = (write_measured(tmp_path / "outside", "secret", 1).path / "cells").iterdir()
    return found


def forget(cell, *files):
    """Have the manifest not name these files, which stay where they are; its own hash is made to fit."""
    manifest = json.loads((cell / "manifest.json").read_text())
    for file in files:
        del manifest["files"][file]
    (cell / "manifest.json").write_text(seal_manifest(manifest))


def put(path, kind, target):
    """A link or a pipe in the place of a file or folder."""
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.symlink_to(target) if kind == "link" else os.mkfifo(path)


def kinds(run):
    size_of(run)
    return {one.kind for one in verify(run)}


@pytest.mark.parametrize("kind", ["link", "pipe"])
@pytest.mark.parametrize("file", FILES[:2])
def test_a_table_that_the_manifest_does_not_name_is_not_read(run, cell, outside, file, kind):
    forget(cell, file)
    put(cell / file, kind, outside / file)
    for verb in ("table", "report"):
        answer = process(verb, run, *(["--out", run / "page.html"] if verb == "report" else []))
        answer.refused(f"{cell / 'manifest.json'} is damaged (it does not name {file}); delete {cell} and run again.")
        assert "secret" not in answer.out
    assert kinds(run) == {"extra", "missing"}


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_statistics_that_the_manifest_does_not_name_are_not_read(run, cell, outside, kind):
    forget(cell, FILES[2])
    put(cell / FILES[2], kind, outside / FILES[2])
    process("table", run, "--metric", "hubness").refused("hubness was not computed for net, and the run kept only rows")
    results = Results(run)
    assert len(results.table()) > 10
    with pytest.raises(IsoscopeError, match="kept only rows"):
        results.statistics()
    merge([run], run.with_name("merged"))
    assert not list(run.with_name("merged").glob("cells/*/statistics.safetensors"))


@pytest.mark.parametrize("kind", ["link", "pipe"])
@pytest.mark.parametrize("file", [*FILES, "manifest.json"])
def test_what_is_no_regular_file_is_refused_by_every_reader(run, cell, outside, file, kind):
    put(cell / file, kind, outside / file)
    for read in (lambda: Results(run), lambda: merge([run], run.with_name("merged")), lambda: Run(run).cell(cell.name)):
        with pytest.raises(IsoscopeError, match=rf"{file} is damaged \(it is (a link|no regular file), which is not followed\)"):
            read()
    assert kinds(run) & {"link", "manifest"}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_file_that_becomes_a_link_or_pipe_after_the_run_was_opened(run, cell, outside, file, kind):
    results = Results(run)
    put(cell / file, kind, outside / file)
    (opened,) = results.run.cells()  # known already, and not looked at again
    for read in {FILES[0]: (opened.rows,), FILES[1]: (opened.series,), FILES[2]: (opened.statistics,)}[file]:
        with pytest.raises(IsoscopeError, match=rf"{file} is damaged \(.*is not followed"):
            read()


def test_a_link_in_the_place_of_the_cells_is_refused(run, outside):
    put(run / "cells", "link", outside.parent)
    said = f"{run / 'cells'} is a link, which is not followed; put the folder itself there."
    for words in (["table", run], ["report", run, "--out", run / "page.html"], ["compare", run, run], ["claims", run]):
        isoscope(*words).refused(said)
    for act in (lambda: merge([run], run.with_name("merged")), lambda: state_of([str(run)]), lambda: Run(run).prepare()):
        with pytest.raises(IsoscopeError, match="is a link, which is not followed"):
            act()
    before = sorted(outside.parent.iterdir())
    with pytest.raises(IsoscopeError, match="is a link, which is not followed"):
        Run(run).copy_cell(Results(outside.parent.parent).run.cells()[0])
    assert sorted(outside.parent.iterdir()) == before
    answer = isoscope("verify", run)
    assert answer.code == 1
    assert f"{run / 'cells'}: it is a link, which is not followed; put the folder itself there." in answer.out


def test_a_cell_that_is_a_link_is_refused(run, cell, outside):
    shutil.rmtree(cell)
    cell.symlink_to(outside)
    for read in (lambda: Results(run), lambda: Run(run).cell(cell.name)):
        with pytest.raises(IsoscopeError, match="is a link, which is not followed"):
            read()
    assert kinds(run) == {"link"}


def test_files_that_nobody_names_change_nothing(run, cell):
    before = Results(run).table()
    (cell / "notes.txt").write_text("mine")
    os.mkfifo(cell / "pipe")
    (cell / "loop").symlink_to(cell)
    (run / "cells" / "stray").write_text("what?")
    os.mkfifo(run / "pipe")
    (run / "partial").mkdir()
    os.mkfifo(run / "partial" / "x.safetensors")
    assert Results(run).table().equals(before)
    assert kinds(run) == {"extra", "leftover"}


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_saved_state_that_is_no_regular_file_is_none(run, tmp_path, kind):
    there = Run(tmp_path / "other")
    there.save_partial("k", {"items": 3}, {"x": np.zeros(4)}.items)
    (run / "partial").mkdir()
    put(run / "partial" / "k.safetensors", kind, there.path / "partial" / "k.safetensors")
    assert there.load_partial("k") is not None
    assert Run(run).load_partial("k") is None
    assert [one.says for one in verify(run)] == ["it is a state that cannot be read and will not be used"]


def test_a_link_in_the_place_of_the_states_is_refused(run, tmp_path):
    (tmp_path / "states").mkdir()
    (run / "partial").symlink_to(tmp_path / "states")
    for act in (Run(run).prepare, lambda: Run(run).load_partial("k"), lambda: Run(run).save_partial("k", {"items": 1}, {}.items)):
        with pytest.raises(IsoscopeError, match="partial is a link, which is not followed"):
            act()
    assert not list((tmp_path / "states").iterdir())
    assert kinds(run) == {"link"}


def test_a_run_within_a_run_is_not_reached_by_a_link(run, outside):
    (run / "requested").symlink_to(outside.parent.parent)
    with pytest.raises(IsoscopeError, match="requested is a link, which is not followed"):
        Results(run).cached_tables(["hubness"], Progress(quiet=True))
    assert len(list(outside.parent.iterdir())) == 1


def test_what_a_sweep_remembers_is_read_from_regular_files_only(run, tmp_path):
    (tmp_path / "secret").write_text('{"suites": {}, "downloaded": ["a"]}\n{"claimed": "b"}\n')
    put(run / "audit.jsonl", "link", tmp_path / "secret")
    with pytest.raises(IsoscopeError, match=r"audit.jsonl is damaged \(it is a link, which is not followed\); delete it"):
        Ledger(run).read()
    put(run / "audit.jsonl", "pipe", None)
    assert Ledger(run).read() == {"suites": {}, "downloaded": []}


def test_nothing_is_written_through_a_link(run, tmp_path):
    (tmp_path / "secret").write_text("mine")
    (run / "audit.json").symlink_to(tmp_path / "secret")
    Ledger(run).record_faults(Suite("net", ()), ["a fault."])
    assert not (run / "audit.json").is_symlink()
    (run / "audit.jsonl").unlink()
    (run / "audit.jsonl").symlink_to(tmp_path / "secret")
    with pytest.raises(IsoscopeError):
        Ledger(run).release("x")
    assert (tmp_path / "secret").read_text() == "mine"


def test_the_run_itself_may_be_reached_by_a_link(run, tmp_path):
    (tmp_path / "mine").symlink_to(run)
    assert Results(tmp_path / "mine").table().equals(Results(run).table())
    assert not list(verify(tmp_path / "mine"))
