"""Names that strangers gave reach no terminal raw, no shell, no page as markup and no path outside of a run."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys

import pandas as pd
import pytest

from isoscope.cli import escape_controls
from isoscope.core.errors import IsoscopeError
from isoscope.core.wording import plain
from isoscope.runs.merging import merge
from isoscope.runs.results import Results
from isoscope.runs.stored_cell import seal_manifest
from isoscope.runs.writing import sha256
from tests.cli.calling import isoscope
from tests.patience import HANG_LIMIT

NAME = "evil\x1b[2J\x1b]0;owned\x07\x9b31m\x08\x08<script>alert(1)</script>$(touch /tmp/owned)"


@pytest.fixture
def renamed(seeds, tmp_path):
    """A run whose model has a name that steers a terminal."""
    shutil.copytree(seeds / "run", tmp_path / "run")
    (cell,) = (tmp_path / "run" / "cells").iterdir()
    for name in ("rows.parquet", "series.parquet"):
        frame = pd.read_parquet(cell / name)
        frame["model"] = NAME
        frame.to_parquet(cell / name, index=False)
    edit(cell, lambda manifest: manifest["columns"].update(model=NAME))
    return tmp_path / "run"


def edit(cell, change):
    manifest = json.loads((cell / "manifest.json").read_text())
    change(manifest)
    for name in manifest["files"]:
        if (cell / name).exists():
            manifest["files"][name] = {"bytes": (cell / name).stat().st_size, "sha256": sha256(cell / name)}
    (cell / "manifest.json").write_text(seal_manifest(manifest))


def on_a_terminal(*words):
    """What a terminal would get of a command."""
    ours, theirs = pty.openpty()
    done = subprocess.Popen([sys.executable, "-m", "isoscope", *map(str, words)], stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    assert done.wait(HANG_LIMIT) == 0, said
    return said.decode("utf-8", "replace")


def test_what_steers_is_written_out():
    assert plain(NAME).startswith(r"evil\x1b[2J\x1b]0;owned\x07\x9b31m\x08\x08<script>")
    assert plain("two\nlines\tand a tab, é 東 \u202e") == "two\nlines\tand a tab, é 東 \\u202e"
    assert escape_controls("\x1b[1;31mred\x1b[0m\x1b[8A\x1b[2K") == "\x1b[1;31mred\x1b[0m\\x1b[8A\\x1b[2K"


@pytest.mark.parametrize("verb", [("table", "--metric", "mean_norm"), ("drift-test",), ("compare-definitions",)])
def test_a_name_in_a_run_does_not_steer_the_terminal(renamed, verb):
    said = on_a_terminal(verb[0], renamed, *verb[1:])
    assert "evil" in said
    for raw in ("\x1b[2J", "\x1b]0", "\x07", "\x9b", "\x08"):
        assert raw not in said


def test_a_name_in_a_run_stays_text_on_the_page(renamed, tmp_path):
    isoscope("report", renamed, "--out", tmp_path / "page.html").worked()
    assert "<script>alert(1)" not in (tmp_path / "page.html").read_text("utf-8")


def test_data_for_another_program_is_as_it_is(renamed):
    rows = json.loads(isoscope("table", renamed, "--json", "--metric", "mean_norm").worked().out)
    assert {row["model"] for row in rows} == {NAME}


def test_errors_do_not_steer_the_terminal(seeds, tmp_path):
    shutil.copytree(seeds / "models" / "safetensors", tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": NAME}))
    answer = isoscope("measure", tmp_path / "model", "--out", tmp_path / "run")
    answer.refused(r"evil\x1b[2J")
    assert answer.err.count("\n") == 1
    assert "\x1b" not in answer.err


def test_an_argument_that_steers_is_refused(tmp_path):
    isoscope("verify", tmp_path / "a\x1b[2J").refused("has control characters; rename the file or folder")
    isoscope("table", "--\x9b31m").refused("has control characters")


@pytest.mark.parametrize("key", ["../../../escaped", "/tmp/escaped", "..", "", ".hidden", "a/b"])
def test_a_key_does_not_lead_out_of_the_run(seeds, tmp_path, key):
    shutil.copytree(seeds / "run", tmp_path / "deep" / "run")
    (cell,) = (tmp_path / "deep" / "run" / "cells").iterdir()
    edit(cell, lambda manifest: manifest.update(key=key) or manifest["identity"].update(experiment="block"))
    with pytest.raises(IsoscopeError, match="is damaged"):
        merge([tmp_path / "deep" / "run"], tmp_path / "deep" / "a" / "merged")
    assert {path.name for path in tmp_path.rglob("*") if path.is_dir()} == {"deep", "run", "cells", cell.name}


@pytest.mark.parametrize("name", ["../../../../../etc/hostname", "/etc/hostname", "manifest.json", "sub/rows.parquet"])
def test_a_manifest_names_only_files_of_its_cell(seeds, tmp_path, name):
    shutil.copytree(seeds / "run", tmp_path / "run")
    (cell,) = (tmp_path / "run" / "cells").iterdir()
    edit(cell, lambda manifest: manifest["files"].update({name: {"bytes": 1, "sha256": "0"}}))
    with pytest.raises(IsoscopeError, match="it names the file"):
        Results(tmp_path / "run")


def test_a_hub_that_names_files_outside_writes_nothing_there(tmp_path, monkeypatch):
    from huggingface_hub import constants

    from isoscope.models.naming.model_name import resolve_model
    from tests.models.loopback_hub import Commit, LoopbackHub

    with LoopbackHub() as hub:
        files = {"config.json": b'{"model_type": "bert"}', "tokenizer.json": b"{}", "model.safetensors": b"1"}
        files |= {"../../../../escaped.json": b"{}", "/tmp/escaped.safetensors": b"1", "..\\escaped.txt": b"x"}
        commit = Commit(files)
        hub.repositories["org/name"] = {"main": commit, commit.sha: commit}
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        for name, value in hub.environment(tmp_path / "deep" / "home").items():
            monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
        try:
            found = {path.name for path in resolve_model("org/name").folder.iterdir()}
        except IsoscopeError:
            found = set()
    assert not {name for name in found if "escaped" in name} - {"..\\escaped.txt"}
    assert not [path for path in tmp_path.rglob("*escaped.*") if "blobs" not in path.parts and "snapshots" not in path.parts]
    assert not os.path.exists("/tmp/escaped.safetensors")


def test_nothing_is_given_to_a_shell():
    """No part of isoscope starts a program, except that a watch starts Python and a fetch the clients of registries, without a shell."""
    from pathlib import Path

    import isoscope as package

    words = ("import subprocess", "from subprocess", "os.system", "os.popen", "os.exec", "os.spawn", "shell=True", "pty.spawn")
    sources = {path: path.read_text("utf-8") for path in Path(package.__file__).parent.rglob("*.py")}
    assert len(sources) > 100
    (starting,) = (path for path in sources if path.name == "numbers_process.py")
    assert re.findall(r"subprocess\.(?!PIPE)\w+", sources[starting]) == ["subprocess.Popen", "subprocess.Popen"]  # a type, and the call
    assert re.search(r"command = \[os\.fsdecode\(get_executable\(\)\), \"-I\", ", sources[starting])
    (fetching,) = (path for path in sources if path.name == "download.py")  # the registries' own clients, by lists of words
    assert re.findall(r"subprocess\.\w+", sources[fetching]) == ["subprocess.Popen", "subprocess.DEVNULL", "subprocess.STDOUT"]
    for path in (starting, fetching):
        sources[path] = sources[path].replace("import subprocess", "")
    assert not [(path, word) for path, text in sources.items() for word in words if word in text]
