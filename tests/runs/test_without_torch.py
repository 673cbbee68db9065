"""Reading results needs no torch, and help is quick; a new metric is one file, all the way to the report."""

import json
import os
import subprocess
import sys

import pytest

import isoscope


@pytest.fixture(scope="module")
def run(small_models, texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reading") / "run"
    isoscope.measure(str(small_models("gpt2")), str(texts), folder, quiet=True)
    return folder


def python(code, **environment):
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=os.environ | environment).stdout


def command(arguments, **environment):
    return python(f"import sys; sys.argv = {['isoscope', *arguments]!r}; from isoscope.cli import main; main()", **environment)


def test_reading_figures_and_report_import_no_torch(run, tmp_path):
    code = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ImportError(f"{{name}} was imported")
sys.meta_path.insert(0, Refuse())
import isoscope
from isoscope.report import write_figures, write_report
from pathlib import Path
results = isoscope.open({str(run)!r})
table, series = results.table(policy="every"), results.series()
write_report(table, series, results.manifests(), Path({str(tmp_path / "page.html")!r}))
print(len(write_figures(table, series, Path({str(tmp_path / "figures")!r}), formats=("svg",))))
import numpy as np
print(len(isoscope.geometry(np.random.default_rng(0).standard_normal((100, 8)))))
assert "torch" not in sys.modules
"""
    figures, metrics = map(int, python(code).split())
    assert figures >= 4
    assert metrics >= 18
    assert (tmp_path / "page.html").stat().st_size > 100_000


def test_help_imports_only_what_it_prints_with():
    """`--help` answers in half a second because it imports nothing heavy; benchmarks/whole_command.py has the seconds."""
    code = "import sys; sys.argv = ['isoscope', '--help']\nfrom isoscope.cli import main\ntry:\n    main()\nfinally:\n    "
    shown = python(code + "print('loaded:', *sorted({name.partition('.')[0] for name in sys.modules}))")
    text, _, loaded = shown.rpartition("loaded:")
    assert "measure" in text
    others = {name for name in loaded.split() if not name.startswith("_")} - sys.stdlib_module_names
    printing = {"typer", "rich", "pygments", "markdown_it", "mdurl", "shellingham", "annotated_doc", "attr"}
    assert others <= printing | {"isoscope", "sitecustomize"}


METRIC = '''
from isoscope.plugins import Cloud, Number, metric


@metric(reads=("sums",), range=(0.0, float("inf")), title="Root mean square norm", at_least=1)
def rms_norm(cloud: Cloud) -> Number:
    """How long the points are, by their squares.

    ``√E‖x‖²``. Range 0 to ∞. No null.
    """
    return Number((cloud.moments.norm2 / cloud.n) ** 0.5, n=cloud.n, d=cloud.d)
'''


def test_a_new_metric_is_one_file(run, tmp_path):
    """Found by the registry, checked by the contracts, listed, in the table of a run that is older than it, and in the report."""
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "rms_norm.py").write_text(METRIC)
    here = {"ISOSCOPE_PLUGINS": str(tmp_path)}
    listed = json.loads(
        python("import sys; sys.argv = ['isoscope', 'list', 'metrics', '--json']; from isoscope.cli import main; main()", **here)
    )
    assert "rms_norm" in {row["name"] for row in listed}
    python("import isoscope; from isoscope.testing import check_metric; check_metric(isoscope.metrics.rms_norm)", **here)
    arguments = ["table", str(run), "--metric", "rms_norm", "--metric", "mean_norm", "--policy", "all", "--format", "json"]
    rows = json.loads(command(arguments, **here))
    values = {(row["kind"], row["layer"], row["metric"]): row["value"] for row in rows}
    for (kind, layer, name), value in values.items():
        if name == "rms_norm":
            assert value >= values[kind, layer, "mean_norm"] > 0
    assert sum(name == "rms_norm" for _, _, name in values) == 6
    page = tmp_path / "page.html"
    command(["report", str(run), "--out", str(page)], **here)
    assert "rms_norm" in page.read_text("utf-8")
    assert "How long the points are, by their squares." in page.read_text("utf-8")
