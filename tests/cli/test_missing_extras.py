"""Without an extra, one sentence names it and how to install it; what needs no extra works without any."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import isoscope
from isoscope.cli.app import app
from isoscope.core.errors import PACKAGES, IsoscopeError, MissingExtraError, missing_extra
from tests.cli.calling import Answer, process
from tests.cli.missing import BLOCKED, Files, Forks, calls
from tests.patience import run_process
from tests.watching.watched import Network, batches

ROOT = Path(__file__).parents[2]
OTHERS = ("lightning", "pytorch_lightning", "tensorboard", "sentencepiece")


@pytest.fixture(scope="module")
def files(small_models, texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("extras")
    isoscope.measure(str(small_models("gpt2")), str(texts), folder / "run", max_items=3, quiet=True)
    torch.manual_seed(0)
    with isoscope.watch(Network(), every=1, data=batches()[0], out=folder / "suite", store="sums") as watch:
        watch.step()
    np.save(folder / "x.npy", np.random.default_rng(0).standard_normal((200, 8)))
    return Files(folder / "run", folder / "suite", small_models("gpt2"), folder / "x.npy", folder / "new")


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    with Forks(tmp_path_factory.mktemp("blocked"), [*PACKAGES, *OTHERS]) as forks:
        yield forks


@pytest.fixture
def without(forks):
    """`without(modules, *words)`: the command line in a process that cannot find these modules."""
    return forks.call


def check(answer: Answer, extra: str) -> None:
    """One sentence with this extra, or where there is none an answer."""
    if extra:
        answer.refused(" needs the package ", f": pip install 'isoscope[{extra}]'.")
        assert answer.err.count("\n") == 1
    else:
        assert answer.worked().out


def test_the_table_of_packages_is_that_of_the_project():
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    listed = dict(re.findall(r"^(\w+) = \[(.*)\]$", text.partition("[project.optional-dependencies]")[2].partition("\n[")[0], re.M))
    for package, extra in PACKAGES.values():
        brought = {"tokenizers": "transformers", "huggingface_hub": "transformers", "markupsafe": "jinja2"}.get(package, package)
        assert f'"{brought}>=' in listed[extra], (package, extra)


def test_every_verb_is_called(files):
    assert set(calls(files)) == {command.name for command in app.registered_commands}


@pytest.mark.parametrize("verb", [command.name for command in app.registered_commands])
def test_without_any_extra_a_verb_works_or_names_its_extra(files, without, verb):
    words, extra = calls(files)[verb]
    answer = without([*PACKAGES, *OTHERS], verb, *words)
    check(answer, "report" if verb == "reproduce" else extra)  # its page would be written last, and is asked for first


@pytest.mark.parametrize(
    ("module", "verb", "extra"),
    [
        *((module, verb, "report") for module in ("altair", "vl_convert", "jinja2", "markupsafe") for verb in ("report", "serve")),
        ("torch", "measure", "models"),
        ("transformers", "measure", "models"),
        ("huggingface_hub", "measure", "models"),
        ("torch", "reproduce", "models"),
        ("vl_convert", "reproduce", "report"),
        ("transformers", "train", "models"),
        ("transformers", "sweep", "models"),
        ("sklearn", "table", ""),
    ],
)
def test_without_one_package_a_verb_names_the_extra_that_brings_it(files, without, module, verb, extra):
    check(without([module], verb, *calls(files)[verb][0]), extra)


@pytest.mark.parametrize(
    ("module", "words", "sentence"),
    [
        ("soundfile", ["--data", "a.wav"], "a.wav needs the package soundfile: pip install 'isoscope[speech]'."),
        ("PIL", ["--data", "a.png"], "a.png needs the package pillow: pip install 'isoscope[vision]'."),
        ("datasets", ["--data", "hf:wiki"], "hf:wiki needs the package datasets: pip install 'isoscope[datasets]'."),
        ("ray", ["--executor", "ray"], "--executor ray needs the package ray: pip install 'isoscope[ray]'."),
        ("accelerate", ["--device-map", "auto"], "--device-map needs the package accelerate: pip install 'isoscope[gguf]'."),
        ("torch", ["--processes", 2, "--split-into", 2], "Measuring a model needs the package torch: pip install 'isoscope[models]'."),
    ],
)
def test_what_an_option_asks_for_is_named(files, without, tmp_path, module, words, sentence):
    shutil.copy(next((ROOT / "src/isoscope/sources/data/images").rglob("*.[pj][np]g")), tmp_path / "a.png")
    (tmp_path / "a.wav").write_bytes(b"RIFF\0\0\0\0WAVE")
    words = [tmp_path / word if str(word).startswith("a.") else word for word in words]
    without([module], "measure", files.model, "-q", "--out", tmp_path / "run", *words).refused(sentence)


def test_the_list_of_families_needs_the_models(without):
    check(without(["torch"], "list", "families"), "models")


def test_a_gguf_file_without_the_package(without, tmp_path):
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_tensor("token_embd.weight", np.zeros((4, 4), np.float32))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        write()
    without(["gguf"], "measure", tmp_path / "a.gguf", "-q", "--out", tmp_path / "run").refused(
        "needs the package gguf: pip install 'isoscope[gguf]'."
    )


@pytest.mark.parametrize("module", ["isoscope.report.page", "altair.utils.schemapi", "numpy.linalg"])
def test_any_other_module_that_is_missing_stays_a_traceback(files, forks, module):
    answer = process("report", files.run, BLOCKED=module, **forks.environment)
    assert answer.code == 1
    assert "Traceback (most recent call last)" in answer.err
    assert f"No module named '{module}'" in answer.err
    assert "pip install" not in answer.err


NAMES = """
import json
import numpy as np
import isoscope

found = {}
for name in isoscope.__all__:
    try:
        getattr(isoscope, name)
        found[name] = ""
    except isoscope.IsoscopeError as error:
        assert isinstance(error, ImportError), error
        found[name] = str(error)
found["called"] = ""
try:
    isoscope.measure("MODEL", quiet=True)
except isoscope.IsoscopeError as error:
    found["called"] = str(error)
assert isoscope.open(RUN).table("mean_cosine")["value"].notna().all()
assert isoscope.geometry(np.eye(9))["mean_norm"] == 1
print(json.dumps(found))
"""


def test_public_names_work_or_raise_the_same_sentence(files, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    code = NAMES.replace('"MODEL"', repr(str(files.model))).replace("RUN", repr(str(files.run)))
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "BLOCKED": ",".join([*PACKAGES, *OTHERS])}
    answer = run_process([sys.executable, "-c", code], env=environment, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    sentences = {name: sentence for name, sentence in json.loads(answer.stdout).items() if sentence}
    needs = "needs the package {}: pip install 'isoscope[{}]'."
    assert sentences == {
        "LightningWatch": "isoscope.LightningWatch " + needs.format("torch", "models"),
        "WatchCallback": "isoscope.WatchCallback " + needs.format("torch", "models"),
        "watch": "isoscope.watch " + needs.format("torch", "models"),
        "repair": "isoscope.repair " + needs.format("scikit-learn", "repair"),
        "called": "Measuring a model " + needs.format("torch", "models"),
    }


def test_only_a_package_that_is_not_installed_is_a_missing_extra(monkeypatch):
    assert missing_extra(ModuleNotFoundError(name="torch.nowhere"), "This") is None  # torch is there
    assert missing_extra(ModuleNotFoundError(name="isoscope.nowhere"), "This") is None
    assert missing_extra(ModuleNotFoundError(), "This") is None
    monkeypatch.setitem(sys.modules, "altair", None)
    found = missing_extra(ModuleNotFoundError(name="altair.utils"), "This")
    assert str(found) == "This needs the package altair: pip install 'isoscope[report]'."
    assert issubclass(MissingExtraError, IsoscopeError)
    assert found.name == "altair"


@pytest.mark.slow
def test_an_environment_without_extras(files, tmp_path):
    """Installed as a user would, from the project with its base dependencies alone."""
    python = tmp_path / "venv" / "bin" / "python"
    run_process([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
    run_process([*pip, "hatchling", "editables"], check=True)
    run_process([*pip, "--no-build-isolation", "-e", ROOT], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for module in PACKAGES:
        found = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is not None)"
        assert run_process([python, "-c", found], env=environment).returncode == 0, module
    assert re.match(r"isoscope \d", run_process([python, "-m", "isoscope", "--version"], env=environment).stdout)
    for verb, (words, extra) in calls(files).items():
        words = [python, "-m", "isoscope", verb, *map(str, words)]
        ended = run_process(words, env=environment, cwd=tmp_path)
        check(Answer(ended.returncode, ended.stdout, ended.stderr), "report" if verb == "reproduce" else extra)
