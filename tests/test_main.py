"""Modules that lie in the current folder are imported by no process: not by the command, its workers, or those of a Ray cluster."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.patience import run_process

PLANTED = ("pickle", "transformers", "torch", "sitecustomize", "numpy", "threading", "typing", "isoscope_plugin")
PLANT = """
import os
with open(os.path.join({marks!r}, "{name}-" + str(os.getpid())), "w") as mark:
    mark.write(" ".join(__import__("sys").orig_argv))
raise ImportError("{name} was imported from the current folder")
"""
SCRIPT = "import sys\nfrom isoscope.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
"""The file that pip writes for the command."""


@pytest.fixture
def trap(small_models, tmp_path):
    """A model's folder that also holds modules, and a folder in which each module leaves a mark when it is imported."""
    folder, marks = tmp_path / "model", tmp_path / "marks"
    shutil.copytree(small_models("bert"), folder)
    marks.mkdir()
    for name in PLANTED:
        (folder / f"{name}.py").write_text(PLANT.format(marks=str(marks), name=name), "utf-8")
    return folder, marks


def run_in(folder, words):
    """Run Python in a folder, with nothing in the environment that would protect it."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONSAFEPATH", "PYTHONPATH")}
    return run_process([sys.executable, *map(str, words)], cwd=folder, env=environment)


def command(tmp_path):
    """The words that start isoscope as its own command does."""
    script = tmp_path / "bin" / "isoscope"
    script.parent.mkdir()
    script.write_text(SCRIPT, "utf-8")
    return [script]


@pytest.mark.parametrize(
    "more", [["--processes", 2, "--split-into", 2], ["--executor", "ray", "--processes", 1], []], ids=["two", "ray", "one"]
)
@pytest.mark.parametrize("way", ["command", "module"])
def test_a_model_is_measured_from_within_its_folder_and_nothing_there_is_imported(trap, texts, tmp_path, way, more):
    folder, marks = trap
    start = command(tmp_path) if way == "command" else ["-m", "isoscope"]
    options = ["--data", texts, "--max-items", 4, "--layers", 1, "--sample", 0, "--out", tmp_path / "run", "-q"]
    done = run_in(folder, [*start, "measure", ".", *options, *more])
    assert sorted(path.name for path in marks.iterdir()) == []
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "run" / "cells").iterdir())) == 1


def test_workers_of_a_program_do_not_search_the_folder_it_was_started_in(trap, texts, tmp_path):
    """`python -c` itself searches the current folder; its workers do not, and the program keeps its own path and environment."""
    folder, marks = trap
    program = f"""
import os, sys
here = sys.path.pop(0)
import isoscope, numpy, torch, transformers, typing, pickle, threading
sys.path.insert(0, here)
isoscope.measure({str(folder)!r}, {str(texts)!r}, {str(tmp_path / "run")!r}, processes=2, split_into=2, max_items=4, sample=0, quiet=True)
assert sys.path[0] == "" and "PYTHONSAFEPATH" not in os.environ
"""
    done = run_in(folder, ["-c", program])
    assert sorted(path.name for path in marks.iterdir()) == []
    assert done.returncode == 0, done.stderr


def test_workers_find_the_modules_that_lie_beside_the_script_that_is_run(small_models, texts, tmp_path):
    (tmp_path / "helper.py").write_text("MODEL = " + repr(str(small_models("bert"))), "utf-8")
    script = tmp_path / "program.py"
    script.write_text(
        "import isoscope\nfrom helper import MODEL\nif __name__ == '__main__':\n"
        f"    isoscope.measure(MODEL, {str(texts)!r}, 'run', processes=2, split_into=2, max_items=4, sample=0, quiet=True)\n",
        "utf-8",
    )
    done = run_in(tmp_path, [script])
    assert done.returncode == 0, done.stderr
    assert Path(tmp_path / "run" / "cells").is_dir()
