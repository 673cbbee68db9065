"""`isoscope verify`: a good run says so, and every kind of damage is found and told apart."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from isoscope.runs.stored_cell import FORMAT, seal_manifest
from isoscope.runs.verify import verify
from tests.cli.calling import isoscope, process
from tests.cli.conftest import FAST

FILES = ("manifest.json", "rows.parquet", "series.parquet", "statistics.safetensors")


@pytest.fixture
def copy(good_run, tmp_path):
    """A run that may be spoilt, and its first cell."""
    shutil.copytree(good_run, tmp_path / "run")
    return tmp_path / "run", min((tmp_path / "run" / "cells").iterdir())


def found(run):
    """The kinds of what is wrong, each with the file it is in."""
    answer = isoscope("verify", run, "--json", "-q")
    said = json.loads(answer.out)
    wrong = [(one["path"].rpartition("/")[2], one["kind"]) for one in said["found"] if one["wrong"]]
    assert answer.code == bool(wrong)
    assert said["good"] == (not wrong)
    return wrong


def rewrite(cell, change):
    """The manifest with something else in it, its own hash made to fit again, as one would who means harm."""
    manifest = json.loads((cell / "manifest.json").read_text())
    change(manifest)
    (cell / "manifest.json").write_text(seal_manifest(manifest))


def test_a_good_run_says_so(good_run):
    answer = isoscope("verify", good_run).worked()
    assert answer.out == "2 cells: no faults.\n"
    assert found(good_run) == []


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("part", [0.0, 0.11, 0.5, 0.93, 1.0])
def test_a_flipped_byte_is_found_wherever_it_is(copy, file, part):
    run, cell = copy
    raw = bytearray((cell / file).read_bytes())
    raw[min(int(part * len(raw)), len(raw) - 1)] ^= 1
    (cell / file).write_bytes(raw)
    assert found(run) in ([(file, "content")], [(file, "manifest")])
    said = isoscope("verify", run).out
    assert f"{cell / file}: " in said
    assert f"delete {cell} and run the same command again." in said
    assert said.endswith("2 cells: 1 fault.\n")


def test_every_single_byte_of_a_manifest_counts(copy):
    run, cell = copy
    raw = (cell / "manifest.json").read_bytes()
    for at in [*range(0, len(raw), 37), *range(len(raw) - 90, len(raw) - 1, 3)]:
        spoilt = bytearray(raw)
        spoilt[at] ^= 4
        (cell / "manifest.json").write_bytes(spoilt)
        wrong = [one for one in verify(run) if one.wrong]
        assert wrong, at
        assert {one.kind for one in wrong} <= {"manifest", "format"}, at


@pytest.mark.parametrize("file", FILES)
def test_cut_short_deleted_and_emptied_are_told_apart(copy, file):
    run, cell = copy
    whole = (cell / file).read_bytes()
    for content in (whole[: len(whole) // 2], b"", whole + b"x"):
        (cell / file).write_bytes(content)
        assert found(run) == [(file, "manifest" if file == "manifest.json" else "size")]
    (cell / file).unlink()
    assert found(run) == [(cell.name, "unfinished") if file == "manifest.json" else (file, "missing")]


def test_what_was_added(copy):
    run, cell = copy
    (cell / "notes.txt").write_text("mine")
    (run / "cells" / "stray").write_text("what?")
    assert found(run) == [("notes.txt", "extra"), ("stray", "extra")]


def test_what_leads_out_of_the_run_is_not_followed(copy, tmp_path):
    run, cell = copy
    (tmp_path / "secret").write_bytes((cell / "rows.parquet").read_bytes())
    (cell / "rows.parquet").unlink()
    (cell / "rows.parquet").symlink_to(tmp_path / "secret")
    assert found(run) == [("rows.parquet", "link")]
    isoscope("table", run).refused(f"{cell / 'rows.parquet'} is damaged (it is a link, which is not followed)")
    shutil.move(cell, tmp_path / "elsewhere")
    cell.symlink_to(tmp_path / "elsewhere")
    assert found(run) == [(cell.name, "link")]
    isoscope("table", run).refused(f"{cell} is a link, which is not followed")


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(copy):
    run, cell = copy
    for file in reversed(FILES):
        (cell / file).unlink()
        os.mkfifo(cell / file)
        assert file in {name for name, _ in found(run)}
        isoscope("table", run).refused("is damaged (it is no regular file, which is not followed)")


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda m: m.update(format=FORMAT + 1), "newer"),
        (lambda m: m.update(format=0), "format"),
        (lambda m: m["identity"].update(statistics=1), "older"),
        (lambda m: m["identity"].update(statistics=99), "newer"),
        (lambda m: m.update(key="../../../elsewhere"), "manifest"),
        (lambda m: m["files"].update({"../../../../etc/hostname": {"bytes": 1, "sha256": ""}}), "manifest"),
        (lambda m: m["files"]["rows.parquet"].update(bytes="many"), "size"),
        (lambda m: m["files"].update({"rows.parquet": None}), "size"),
        (lambda m: m["columns"].update(model=["a", "list"]), "manifest"),
        (lambda m: m.update(keep="everything"), "manifest"),
        (lambda m: m["identity"].update(shard=[3, 2]), "manifest"),
        (lambda m: m["spec"].update(tokens=1), None),
    ],
)
def test_a_manifest_that_was_written_by_hand(copy, change, kind):
    run, cell = copy
    rewrite(cell, change)
    kinds = {kind for _, kind in found(run)}
    assert (kind in kinds) if kind else not kinds
    said = isoscope("verify", run).out
    assert kind != "newer" or "upgrade isoscope" in said


def test_a_table_of_another_schema_and_statistics_of_another_kind(copy):
    """The hashes fit, as they would in a run that somebody made up."""
    import pandas as pd
    from safetensors.numpy import load_file, save_file

    from isoscope.runs.writing import sha256

    run, cell = copy
    rows = pd.read_parquet(cell / "rows.parquet")
    rows["value"] = rows["value"].astype(str)
    rows.to_parquet(cell / "rows.parquet")
    pd.read_parquet(cell / "series.parquet").drop(columns="x").to_parquet(cell / "series.parquet")
    arrays = load_file(cell / "statistics.safetensors")
    name = next(name for name in arrays if name.endswith("body.counts"))
    del arrays[name]
    save_file(arrays, cell / "statistics.safetensors")

    def fit(manifest):
        for file in FILES[1:]:
            manifest["files"][file] = {"bytes": (cell / file).stat().st_size, "sha256": sha256(cell / file)}

    rewrite(cell, fit)
    assert found(run) == [("rows.parquet", "schema"), ("series.parquet", "schema"), ("statistics.safetensors", "statistics")]
    said = isoscope("verify", run).out
    assert "its column value holds " in said
    assert "it lacks the column x" in said
    assert "is not what a site keeps" in said


def test_what_killed_processes_left_is_said_and_is_not_wrong(copy):
    from isoscope.core.temporary import this_machine
    from isoscope.runs.run import Run

    run, cell = copy
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    shutil.copytree(cell, run / "cells" / f".{cell.name}.{this_machine()}-{ended.pid}-00000000.tmp")
    shutil.copytree(cell, run / "cells" / f".{cell.name}.ffffffff-1-00000000.tmp")
    Run(run).save_partial("0" * 24, {"items": 7}, {}.items)
    (run / "partial" / f"{cell.name}.safetensors").write_bytes(b"old")
    (run / "partial" / ("1" * 24 + ".safetensors")).write_bytes(b"torn")
    (run / "partial" / f".{'2' * 24}.safetensors.{this_machine()}-{os.getpid()}-00000000.tmp").write_bytes(b"")
    assert found(run) == []
    said = isoscope("verify", run).worked().out
    assert f"process {ended.pid}, which has ended, was writing it; delete it once nothing runs." in said
    assert f"process {os.getpid()}, which may still run, was writing it; delete it once nothing runs." in said
    assert "process 1 of another machine or container, or from before a restart, was writing it; delete it once nothing runs." in said
    assert "a cell got as far as 7 items; the same command resumes from there." in said
    assert "its cell is finished; delete it." in said
    assert "it is a state that cannot be read and will not be used; delete it." in said
    assert said.endswith("2 cells: no faults.\n")


def test_what_it_says_to_do_mends_the_run(copy, good_run, bert, gpt2, paragraphs):
    run, cell = copy
    raw = bytearray((cell / "statistics.safetensors").read_bytes())
    raw[-9] ^= 64
    (cell / "statistics.safetensors").write_bytes(raw)
    assert found(run) == [("statistics.safetensors", "content")]
    shutil.rmtree(cell)
    isoscope("measure", bert, gpt2, "--data", paragraphs, "--out", run, *FAST).worked()
    assert found(run) == []
    words = ("--metric", "mean_cosine")
    assert sorted(isoscope("table", run, *words).out.splitlines()) == sorted(isoscope("table", good_run, *words).out.splitlines())


def test_what_is_no_run(tmp_path, paragraphs):
    isoscope("verify", tmp_path).refused(f"{tmp_path} is not a run: it has no folder called cells")
    isoscope("verify", paragraphs).refused(f"{paragraphs} is not a run")
    isoscope("verify", tmp_path / "nowhere").refused("is not a run")


def test_a_large_file_is_checked_in_little_memory(copy):
    """A cell whose statistics have 1 GB, in a process that may have 1.5 GB of addresses in all: a site is small."""
    run, cell = copy
    with (cell / "statistics.safetensors").open("r+b") as file:
        file.truncate(1 << 30)
    rewrite(cell, lambda manifest: manifest["files"]["statistics.safetensors"].update(bytes=1 << 30))
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1500 << 20,) * 2); "
        "from pathlib import Path; from isoscope.runs.verify import verify; "
        f"print([one.kind for one in verify(Path({str(run)!r})) if one.wrong])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "['content']\n", done.stderr[-500:]


def test_as_a_process(copy):
    run, cell = copy
    (cell / "series.parquet").unlink()
    answer = process("verify", run)
    assert (answer.code, answer.err) == (1, "")
    assert "series.parquet: the manifest names it, and it is not there; " in answer.out
