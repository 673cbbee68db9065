"""Runs that are none, were damaged, do not fit together, or have no room."""

import contextlib
import errno
import json
import os
import shutil
import subprocess

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import FORMAT
from tests.cli.calling import Answer, command, isoscope
from tests.cli.conftest import FAST
from tests.runs.packing import pack, write_made_cell

FILES = ("manifest.json", "rows.parquet", "series.parquet", "statistics.safetensors")


@pytest.mark.parametrize("verb", [("table",), ("report",), ("merge", "--out", "never-made")])
def test_a_folder_that_is_no_run(tmp_path, monkeypatch, bert, paragraphs, verb):
    monkeypatch.chdir(tmp_path)
    isoscope(*verb, tmp_path).refused(f"{tmp_path} holds no finished cell; isoscope measure MODEL --out {tmp_path} makes one")
    isoscope(*verb, bert).refused(f"{bert} holds no finished cell")
    isoscope(*verb, "nowhere").refused("There is no run at nowhere; isoscope measure MODEL --out nowhere makes one")
    isoscope(*verb, paragraphs).refused(f"{paragraphs} is a file; a run is a folder")
    assert list(tmp_path.iterdir()) == []


def damaged(run, to, file, content):
    """A copy of a run in which one file of the first cell is replaced, or removed; the copy and that cell's folder."""
    shutil.copytree(run, to)
    cell = min((to / "cells").iterdir())
    (cell / file).unlink()
    if content is not None:
        (cell / file).write_bytes(content)
    return to, cell


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("content", [b"", f'{{"format": {FORMAT}}}'.encode(), None], ids=["empty", "other", "gone"])
def test_damage_says_what_to_delete(good_run, tmp_path, bert, gpt2, paragraphs, file, content):
    run, cell = damaged(good_run, tmp_path / "run", file, content)
    if file == "manifest.json" and content is None:  # a cell without a manifest is not finished, and nothing of it is read
        rows = json.loads(isoscope("table", run, "--json", "--policy", "all").worked().out)
        assert len({row["model"] for row in rows}) == 1
        return
    said = (f"{cell / file} is damaged (", f"; delete {cell} and run again.")
    isoscope("table", run).refused(*said)
    isoscope("table", run, "--series").refused(*said)
    isoscope("report", run, "--out", tmp_path / "page.html").refused(*said)
    isoscope("merge", run, "--out", tmp_path / "merged").refused(*said)
    isoscope("measure", bert, gpt2, "--data", paragraphs, "--out", run, *FAST).refused(*said)


@pytest.mark.parametrize("file", FILES[1:])
def test_damage_that_keeps_the_length(good_run, tmp_path, file):
    length = (min((good_run / "cells").iterdir()) / file).stat().st_size
    run, cell = damaged(good_run, tmp_path / "run", file, bytes(length))
    words = {"rows.parquet": ("table", run), "series.parquet": ("table", run, "--series")}
    answer = isoscope(*words.get(file, ("merge", run, "--out", tmp_path / "merged")))
    answer.refused(f"{cell / file} is damaged (", f"; delete {cell} and run again.")


def test_what_was_deleted_is_computed_again(good_run, tmp_path, bert, gpt2, paragraphs):
    run, cell = damaged(good_run, tmp_path / "run", "rows.parquet", b"")
    shutil.rmtree(cell)
    isoscope("measure", bert, gpt2, "--data", paragraphs, "--out", run, *FAST).worked()
    words = ("--metric", "mean_cosine", "--metric", "effective_rank")
    again, before = (isoscope("table", path, *words).out.splitlines() for path in (run, good_run))
    assert sorted(again) == sorted(before)  # the cell that was computed again comes last


def test_shards_that_do_not_fit_together(shards, tmp_path):
    words = ("--out", tmp_path / "merged")
    isoscope("merge", shards("1/2"), *words).refused("The shards 2/2 of small-bert are missing; measure them first")
    isoscope("merge", shards("1/2"), shards("2/3"), *words).refused("small-bert are of different divisions (1/2, 2/3)")
    only_rows = shards("2/2", "--store", "rows")
    isoscope("merge", shards("1/2"), only_rows, *words).refused("A shard of small-bert kept only rows, which cannot be merged")
    assert not (tmp_path / "merged").exists()


def test_a_run_of_rows_does_not_hold_every_metric(shards):
    isoscope("table", shards("2/2", "--store", "rows"), "--metric", "cosine_sd").refused(
        "cosine_sd was not computed for small-bert, and the run kept only rows"
    )


def test_a_cell_that_kept_less_gives_way_to_one_that_kept_more(shards, tmp_path):
    """What `measure --store all` needs in order to go beyond a run of rows."""
    run = Run(tmp_path / "run")
    shutil.copytree(shards("2/2", "--store", "rows"), run.path)
    (more,) = Run(shards("2/2")).cells()
    key, (less,) = more.manifest["key"], run.cells()
    assert less.manifest["key"] == key
    assert run.cell(key) is not None
    assert run.cell(key, "sums") is None
    arrays = pack(more.statistics())
    manifest = {name: value for name, value in more.manifest.items() if name not in ("key", "files", "format")}
    write_made_cell(run, key, manifest, more.rows(), more.series(), arrays.items)
    kept = run.cell(key, "all")
    assert kept is not None
    assert pack(kept.statistics()).keys() == arrays.keys()
    write_made_cell(run, key, manifest | {"keep": "rows"}, more.rows(), more.series(), None)
    assert run.cell(key, "all") is not None
    assert [path.name for path in (run.path / "cells").iterdir()] == [key]


def test_a_folder_is_tried_before_the_work(tmp_path):
    Run(tmp_path / "new").prepare()
    assert list((tmp_path / "new" / "cells").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(IsoscopeError, match=r"Cannot write to .*file: Not a directory\."):
        Run(tmp_path / "file").prepare()


def test_output_that_cannot_be_written(good_run, shards, gpt2, paragraphs, tmp_path):
    file = tmp_path / "file"
    file.write_text("in the way")
    for place in (file, file / "below"):
        isoscope("measure", gpt2, "--data", paragraphs, "--out", place, "--layers", "0", *FAST).refused(f"Cannot write to {place}: ")
    isoscope("merge", shards("1/2"), shards("2/2"), "--out", file / "below").refused(f"Cannot write to {file / 'below'}: ")
    isoscope("table", good_run, "--out", tmp_path).refused(f"Cannot write {tmp_path}: Is a directory.")
    isoscope("table", good_run, "--out", tmp_path / "no" / "x.csv").refused(f"Cannot write {tmp_path / 'no' / 'x.csv'}: ")
    isoscope("report", good_run, "--out", file / "page.html").refused(f"Cannot write {file}: ")
    assert file.read_text() == "in the way"


def test_a_folder_without_permission(gpt2, paragraphs, tmp_path):
    tmp_path.chmod(0o500)
    words = command("measure", gpt2, "--data", paragraphs, "--out", tmp_path / "run", "--layers", "0", *FAST)
    as_anyone = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.geteuid() == 0 else []  # root may write everywhere
    done = subprocess.run([*as_anyone, *words], capture_output=True, text=True, check=False)
    Answer(done.returncode, done.stdout, done.stderr).refused(f"Cannot write to {tmp_path / 'run'}: Permission denied")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own that holds 400 KB; only root can make one."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "isoscope-test", place], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(disk, *, leave=0):
    """Write until the disk is full, then give some of it back."""
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    os.truncate(disk / "filler", (disk / "filler").stat().st_size - leave)


def test_a_disk_that_is_too_small_is_known_before_the_work(small_disk, bert, paragraphs):
    answer = isoscope("measure", bert, "--data", paragraphs, "--out", small_disk / "run", *FAST)
    answer.refused("The run will write ", f"the disk that holds {small_disk / 'run'} has ", "--store sums")


def test_a_full_disk_loses_nothing_that_was_finished(small_disk, bert, gpt2, paragraphs):
    words = ("--data", paragraphs, "--out", small_disk / "run", "--layers", "0", "--store", "rows", *FAST)
    isoscope("measure", bert, *words).worked()
    fill(small_disk, leave=8192)
    full = (f"The disk that holds {small_disk / 'run' / 'cells'} is full; finished cells are kept", "run the same command again")
    isoscope("measure", bert, gpt2, *words).refused(*full)
    (cell,) = (small_disk / "run" / "cells").iterdir()
    assert {path.name for path in cell.iterdir()} == set(FILES) - {"statistics.safetensors"}
    (small_disk / "filler").unlink()
    isoscope("measure", bert, gpt2, *words).worked()
    rows = json.loads(isoscope("table", small_disk / "run", "--metric", "mean_norm", "--policy", "all", "--json").worked().out)
    assert {row["model"] for row in rows} == {"small-bert", "small-gpt2"}


def test_a_full_disk_where_statistics_are_written(small_disk, shards):
    answer = isoscope("merge", shards("1/2"), shards("2/2"), "--out", small_disk / "merged")
    answer.refused(f"The disk that holds {small_disk / 'merged' / 'cells'} is full")
    assert list((small_disk / "merged" / "cells").iterdir()) == []


def test_a_full_disk_where_tables_and_pages_are_written(small_disk, good_run):
    fill(small_disk)
    for name in ("x.csv", "x.json", "x.parquet"):
        answer = isoscope("table", good_run, "--format", name[2:], "--out", small_disk / name)
        answer.refused(f"Cannot write {small_disk / name}: ", os.strerror(errno.ENOSPC))
    isoscope("report", good_run, "--out", small_disk / "x.html").refused(
        f"Cannot write {small_disk / 'x.html'}: ", "No space left on device"
    )
