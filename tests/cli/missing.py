"""Every verb with arguments that need little work, to be called where packages are missing."""

from dataclasses import dataclass
from pathlib import Path

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
    }
