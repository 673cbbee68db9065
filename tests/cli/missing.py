"""Every verb with arguments that need little work, to be called where packages are missing."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.cli.calling import Answer
from tests.patience import HANG_LIMIT

BLOCKED = """
import os, sys
from importlib.machinery import PathFinder

class Rest(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        blocked = any(f"{name}.".startswith(f"{gone}.") for gone in os.environ["BLOCKED"].split(","))
        return None if blocked else PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [Rest if finder is PathFinder else finder for finder in sys.meta_path]
"""
"""A sitecustomize.py, which every process reads when it starts, workers too: these modules cannot be found."""

FORKS = """
import json, os, runpy, signal, sys
import numpy, pandas, pyarrow.parquet, rich, safetensors.numpy, threadpoolctl, typer
import scipy.linalg, scipy.optimize, scipy.special, scipy.stats

assert not any(name.partition(".")[0] in ("isoscope", *os.environ["BLOCKED"].split(",")) for name in sys.modules)
for line in sys.stdin:
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.environ["BLOCKED"], words, out, err, limit = json.loads(line)
    for stream, (path, mode) in enumerate([(os.devnull, "r"), (out, "w"), (err, "w")]):
        with open(path, mode) as file:
            os.dup2(file.fileno(), stream)
    signal.alarm(limit)
    sys.argv[1:] = words
    runpy.run_module("isoscope", run_name="__main__", alter_sys=True)
    break
"""
"""A program that imports what every installation has, and starts the command line in a copy of itself for every line it reads.

Importing that again for each of fifty processes takes most of their time. A copy has imported nothing of isoscope, and no extra.
"""


class Forks:
    """Processes of the command line that cannot find some modules."""

    def __init__(self, folder: Path, blocked: Sequence[str]) -> None:
        """`blocked` must hold every module that a process is to miss; `folder` gets what the processes print."""
        (folder / "sitecustomize.py").write_text(BLOCKED)
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        self.environment, self._out, self._err = {"PYTHONPATH": path}, folder / "out", folder / "err"
        environment = os.environ | self.environment | {"BLOCKED": ",".join(blocked)}
        self._program = subprocess.Popen(
            [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.communicate()  # closes its input, which ends it

    def call(self, modules: Sequence[str], *words: object) -> Answer:
        """The command line in a process that cannot find these modules."""
        request = [",".join(modules), [*map(str, words)], str(self._out), str(self._err), int(HANG_LIMIT)]
        self._program.stdin.write(json.dumps(request) + "\n")
        self._program.stdin.flush()
        return Answer(int(self._program.stdout.readline()), self._out.read_text("utf-8"), self._err.read_text("utf-8"))


@dataclass(frozen=True)
class Files:
    """What the verbs read, and a folder that they may write to."""

    run: Path
    suite: Path
    model: Path
    matrix: Path
    new: Path


def calls(files: Files) -> dict[str, tuple[list[object], str]]:
    """For each verb its arguments, and the extra that it needs, or nothing."""
    run, new = files.run, files.new
    return {
        "measure": ([files.model, "--out", new / "measured"], "models"),
        "sweep": (["embedded", "--out", new / "swept"], "models"),
        "train": (["causal-text", "--out", new / "trained"], "models"),
        "reproduce": (["godey2024", "--out", new / "reproduced"], "models"),
        "untrained-block": (["--out", new / "block"], "models"),
        "report": ([run, "--out", new / "page.html"], "report"),
        "serve": ([run, "--port", 0], "report"),
        "embeddings": ([files.matrix], ""),
        "table": ([run, "--metric", "mean_cosine"], ""),
        "claims": ([run], ""),
        "compare": ([run, run], ""),
        "compare-definitions": ([files.matrix], ""),
        "drift-test": ([run], ""),
        "dynamics": ([files.suite], ""),
        "merge": ([run, "--out", new / "merged"], ""),
        "verify": ([run], ""),
        "cite": ([run], ""),
        "isotropic-null": ([], ""),
        "list": (["metrics"], ""),
        "fetch": (["--list"], ""),
    }
