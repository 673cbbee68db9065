"""The how-to guides do what they say: every command and every snippet is carried out, in order, in an empty folder."""

import importlib.util
import os
import re
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from tests.cli.calling import isoscope
from tests.patience import run_process

from isoscope.core.errors import IsoscopeWarning

ROOT = Path(__file__).parents[2]

PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
PART = re.compile(
    r"^```python\n(?P<code>.*?)^```$|^```text\n(?P<text>.*?)^```$|"
    r"^`(?P<file>[\w/]+\.py)`:$|^    (?P<command>(?:isoscope|mkdir|export) [^\n]*)$",
    re.DOTALL | re.MULTILINE,
)
PRINTED = "first-verdict"
"""The page whose printed output is compared: its numbers come from a seed, those of other pages from models that the tests do not have."""
WARNS = "watched-training"
"""The page whose training collapses, and is to say so."""
ENDLESS = "isoscope serve"
"""It ends when its reader ends it; tests/report/ drives it."""


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A folder with what a reader has: a model, a text, vectors, a model that no family knows."""
    from transformers import CLIPTextConfig, CLIPTextModel

    monkeypatch.chdir(tmp_path)
    tiny = module(ROOT / "examples" / "tiny_model.py").tiny_model
    for name in ("my-model", "clip-text"):
        tiny(tmp_path / name)
    size = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64}
    CLIPTextModel(CLIPTextConfig(vocab_size=80, bos_token_id=2, eos_token_id=3, pad_token_id=0, **size)).save_pretrained("clip-text")
    Path("corpus.txt").write_text("\n\n".join(f"It was the {i}th of them, and that is all that it was for." for i in range(40)), "utf-8")
    np.save("vectors.npy", np.random.default_rng(0).standard_normal((400, 16)) * np.linspace(3, 0.3, 16) + 1)
    return tmp_path


def module(path):
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def parts(page):
    """What the page says to do: commands, files to write, code to run; code under a file's name is what the file holds."""
    name = None
    for found in PART.finditer(page.read_text("utf-8")):
        if found["file"]:
            name = found["file"]
        elif found["command"]:
            yield "command", found["command"].partition("  #")[0].strip()
        elif found["text"]:
            yield "text", found["text"]
        elif name:
            yield name, found["code"]
            name = None
        else:
            yield "code", found["code"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_and_snippet_works(page, stranger):
    plugins = None
    names = {}
    done, printed = 0, ""
    alert = pytest.warns(IsoscopeWarning, match="its states all point almost the same way") if page.stem == WARNS else nullcontext()
    if page.stem == "add-a-metric":  # it reads the run that the first guide made
        isoscope("measure", "my-model", "--max-items", "8", "--out", "runs/mine").worked()
    for kind, text in parts(page):
        if kind == "text":
            if page.stem == PRINTED:
                assert [line for line in text.splitlines() if line not in printed] == []
        elif kind not in ("command", "code"):
            Path(kind).write_text(text, "utf-8")
        elif text.startswith("export ISOSCOPE_PLUGINS="):
            plugins = {"ISOSCOPE_PLUGINS": text.partition("=")[2].replace("$PWD", str(stranger))}
        elif text.startswith("mkdir -p "):
            Path(text.removeprefix("mkdir -p ")).mkdir(parents=True)
        elif not text.startswith(ENDLESS):
            with alert if kind == "code" else nullcontext():
                printed = carry_out(kind, text, names, plugins)
            done += 1
    assert done >= 2


def carry_out(kind, text, names, plugins):
    """What a command prints, without blanks at the ends of lines.

    In this process, as that is quick; what reads plugins in one of its own, as they are found when isoscope is imported.
    """
    if plugins:
        words = [sys.executable, "-m", *shlex.split(text)] if kind == "command" else [sys.executable, "-c", text]
        ended = run_process(words, env=os.environ | plugins)
        assert ended.returncode == 0, (text, ended.stderr)
    elif kind == "command":
        answer = isoscope(*shlex.split(text)[1:]).worked()
        return "\n".join(line.rstrip() for line in (answer.out + answer.err).splitlines())
    else:
        exec(compile(text, "how-to", "exec"), names)
    return ""
