"""Every example runs as a user would run it, without a download, and what it prints is right."""

import ast
import json
import os
import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest
from tests.patience import run_process

import isoscope

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


def run(name, folder, *words):
    """The lines that an example prints when it is run in `folder`."""
    env = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, words)]
    done = run_process(command, cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def run_here(tmp_path, monkeypatch, capsys):
    """As `run`, but in this process, which has imported what a training takes seconds to import."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def lines(name, *words):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
        capsys.readouterr()
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return lines


@pytest.mark.parametrize("name", NAMES)
def test_it_is_short_and_has_a_test(name):
    assert len((EXAMPLES / f"{name}.py").read_text("utf-8").splitlines()) < 60
    assert f"def test_{name}(" in Path(__file__).read_text("utf-8")


def test_measure_embeddings(tmp_path):
    lines = {line.split()[0]: line for line in run("measure_embeddings", tmp_path)}
    assert abs(float(lines["mean_cosine"].split()[1]) - 1 / 3) < 0.01
    assert abs(float(lines["drift_ratio"].split()[1]) - 1 / 3) < 0.01
    assert lines["mean_cosine"].endswith("above chance")
    assert lines["top_share"].endswith("as chance")
    assert lines["isoscore"].endswith("as chance")


def test_measure_model(tmp_path):
    lines = run("measure_model", tmp_path)
    peaks = [re.search(r"^(\S+) peaks in layer (\d): ([\d.]+) \(95 % ([\d.]+) to ([\d.]+)\)$", line) for line in lines[-2:]]
    assert sorted(peak[1] for peak in peaks) == ["tiny", "untrained:tiny"]
    for peak in peaks:
        # words + positions + one type vector that all tokens share: a third at least, and more where words repeat
        assert 1 / 3 < float(peak[4]) < float(peak[3]) < float(peak[5]) < 0.6
        column = [float(line.split()[1 + (peak[1] != "tiny")]) for line in lines[2:5]]
        assert max(column) == float(peak[3]) == column[int(peak[2])]


def test_shards(tmp_path):
    counts, apart, key = run("shards", tmp_path)
    one, three, both = (int(number) for number in re.findall(r"\d+", counts))
    assert one == three >= both > 50
    assert float(apart.split()[-1]) < 1e-6
    assert key.endswith("True")


def test_own_metric(tmp_path):
    centred, rectified = run("own_metric", tmp_path)
    assert abs(float(centred.split()[2])) < 4 / 64**0.5
    assert rectified.split()[2] == "1.000"


def test_draw_a_figure(tmp_path):
    assert run("draw_a_figure", tmp_path)[0].startswith("figure.svg: ")
    drawn = (tmp_path / "figure.svg").read_text("utf-8")
    assert drawn.startswith("<svg")
    assert "between_cosine" in drawn
    assert "tiny" in drawn


def test_tiny_model(tmp_path):
    assert run("tiny_model", tmp_path, tmp_path / "made") == [str(tmp_path / "made")]
    assert json.loads((tmp_path / "made" / "config.json").read_text("utf-8"))["hidden_size"] == 32
    assert (tmp_path / "made" / "model.safetensors").stat().st_size > 4 * 32 * 64


def test_repair_embeddings(tmp_path):
    head, *rows = run("repair_embeddings", tmp_path)
    names = head.split()
    table = {row[:28].strip(): dict(zip(names, map(float, row[28:].split()), strict=True)) for row in rows}
    assert table["as it is"]["mean_cosine"] > 0.9
    assert table["Centre()"]["drift_ratio"] == 0.0
    assert table["Whiten(kind='zca')"]["isoscore"] == 1.0


def lines_of_code(name):
    """How many lines an example takes, without its docstring and the classes that it defines."""
    _, *body = ast.parse((EXAMPLES / f"{name}.py").read_text("utf-8")).body
    return sum(part.end_lineno - part.lineno + 1 for part in body if not isinstance(part, ast.ClassDef))


@pytest.mark.parametrize("name", ["measure_module", "measure_sentence_transformer", "measure_timm"])
def test_six_lines_are_enough(name):
    assert lines_of_code(name) <= 6


def test_measure_module(tmp_path):
    _, *rows = (line.split() for line in run("measure_module", tmp_path))
    assert [(kind, layer) for kind, layer, *_ in rows] == [
        ("hidden", "0"),
        ("hidden", "1"),
        ("hidden", "2"),
        ("hidden", "3"),
        ("final", "4"),
    ]
    assert {n for _, _, n, *_ in rows} == {"3200"}
    assert abs(float(rows[0][3])) < 0.03  # words that are drawn at random, of a table that is
    assert float(rows[3][3]) > float(rows[0][5])  # what a ReLU gives has a mean
    assert all(float(low) < float(value) < float(high) for *_, value, low, high in rows)


def sentence_transformer(model, folder):
    """The older layout: the Transformer in a folder of its own."""
    shutil.copytree(model, folder / "0_Transformer", ignore=shutil.ignore_patterns("modules.json", "1_Pooling"))
    modules = [{"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}]
    modules += [{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")
    return folder


@pytest.mark.models
def test_measure_sentence_transformer(tmp_path, minilm):
    assert (minilm / "modules.json").is_file()
    head, *rows = run("measure_sentence_transformer", tmp_path, minilm)
    assert head.split() == ["model", "layer", "value", "low", "high"]
    assert [row.split()[:2] for row in rows] == [["all-MiniLM-L6-v2", str(layer)] for layer in range(7)]
    values = [float(row.split()[2]) for row in rows]
    assert max(values) == values[5] > 0.2
    assert values[6] < 0.1  # the last layer was trained to tell sentences apart


@pytest.mark.slow
def test_measure_sentence_transformer_in_the_older_layout(tmp_path, small_models):
    model = small_models("bert")
    _, *rows = (line.split() for line in run("measure_sentence_transformer", tmp_path, sentence_transformer(model, tmp_path / "older")))
    assert {row[0] for row in rows} == {"older"}
    table = isoscope.measure(str(model), out=tmp_path / "plain", max_tokens=4_000, quiet=True).table("between_cosine", policy="no-special")
    assert [float(row[2]) for row in rows] == pytest.approx(table[table["kind"] == "hidden"]["value"].tolist(), abs=1e-6)


def test_measure_timm():
    """It is compiled and not run: timm imports torchvision, which cannot be installed beside this torch."""
    source = (EXAMPLES / "measure_timm.py").read_text("utf-8")
    compile(source, "measure_timm.py", "exec")
    assert "was not run" in ast.get_docstring(ast.parse(source))


def watched(lines, *, first):
    """The numbers of a table that an example prints, by step, from the line that begins with `first` on; and its last line."""
    start = next(i for i, line in enumerate(lines) if line.split()[:1] == [first])
    rows = [line.split() for line in lines[start + 2 :]]
    return {int(row[0]): [float(word) for word in row[1:]] for row in rows if row[0].isdigit()}, lines[-1]


def test_watch_plain(run_here):
    lines = run_here("watch_plain")
    assert lines[-1] == "equal weights: True"
    geometry = {int(line.split()[0]): line.split()[1:] for line in lines[2:6]}
    assert sorted(geometry) == [0, 10, 20, 30]
    losses = [float(line.split()[1]) for line in lines[6:9]]
    assert losses == sorted(losses, reverse=True)
    assert geometry[0] != geometry[30]


def test_watch_trainer(run_here, tmp_path):
    lines = run_here("watch_trainer")
    assert lines[-1] == "equal weights: True"
    training, _ = watched(lines, first="metric")
    assert training[10][1:] == [pytest.approx(3e-3 * 16 / 25), pytest.approx(4.1, abs=0.2)]  # linear decay; a loss near ln 64
    assert training[20][2] < training[10][2]
    assert training[20][0] > 0
    table = isoscope.open(tmp_path / "runs" / "trainer" / "isoscope").table("mean_cosine")
    assert sorted(set(table["step"])) == [0, 10, 20, 25]


def test_watch_lightning(run_here, tmp_path):
    lines = run_here("watch_lightning")
    assert lines[-1] == "equal weights: True"
    training, _ = watched(lines, first="metric")
    assert training[10][1] == 3e-3
    assert training[20][2] < training[10][2] < 4.3
    table = isoscope.open(tmp_path / "runs" / "lightning" / "isoscope").table("two_nn")
    assert sorted(set(table["step"])) == [0, 10, 20, 25]


def test_loggers(run_here, tmp_path):
    lines = run_here("loggers", "tensorboard")
    assert [line.split()[0] for line in lines] == ["0", "1", "closed"]
    assert lines[0].count("mean_cosine/hidden_") == 3
    assert list((tmp_path / "runs" / "logged" / "tensorboard").glob("events.*"))
