"""The documentation is true: made pages are up to date, links lead somewhere, code in it runs."""

import importlib.util
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.patience import run_process

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def module(path):
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_made_pages_are_what_would_be_made():
    # in a process of its own, so that no plugin or terminal of this one shows
    env = {name: value for name, value in os.environ.items() if name != "ISOSCOPE_PLUGINS"} | {"COLUMNS": "60"}
    done = run_process([sys.executable, ROOT / "tools" / "make_docs.py", "--check"], env=env)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_every_metric_gets_a_page_with_its_range_and_stands_under_its_question(monkeypatch):
    """In memory: the page of a new metric need not be in docs/ yet."""
    from isoscope.metrics import metrics

    monkeypatch.syspath_prepend(ROOT / "tools")
    make_docs = module(ROOT / "tools" / "make_docs.py")
    entries = make_docs.entries()
    index = make_docs.metrics_page(entries)
    for metric in metrics():
        page = make_docs.metric_page(metric)
        assert metric.summary in page
        assert "**Range and null.** Range" in page
        section = index.partition(f"## {metric.question}\n")[2].partition("\n## ")[0]
        assert f"[{metric.name}](metrics/{metric.name}.md) | {metric.summary}" in section
    assert [len(entries), len(set(re.findall(r"\]\(metrics/(\w+)\.md\)", index)))] == [len(entries)] * 2


def test_pictures_are_pictures_and_small():
    drawn = {folder: sorted((ROOT / "docs" / folder).glob("*.svg")) for folder in ("metrics", "gallery")}
    for path in [*drawn["metrics"], *drawn["gallery"]]:
        lines = len(re.findall(r"<(?:path|line|rect|circle) ", path.read_text("utf-8")))
        assert lines > 10, path.name  # axes and at least one line: an empty plot has fewer
    assert max(path.stat().st_size for path in drawn["metrics"]) < 15_000
    assert sum(path.stat().st_size for path in drawn["gallery"]) < 3_000_000


def test_the_python_of_the_metrics_pages_runs(tmp_path, monkeypatch):
    import isoscope

    X = np.random.default_rng(0).standard_normal((200, 8)) + 1
    monkeypatch.setattr(isoscope, "open", lambda path: isoscope.Results(tmp_path / "run"))
    isoscope.measure(
        module(ROOT / "examples" / "tiny_model.py").tiny_model(tmp_path / "tiny").as_posix(), out=tmp_path / "run", max_items=8, quiet=True
    )
    for name in ("mean_cosine", "two_nn", "spectrum"):
        (block,) = BLOCK.findall((ROOT / "docs" / "metrics" / f"{name}.md").read_text("utf-8"))
        for line in block.strip().splitlines():
            assert len(np.atleast_1d(eval(line, {"isoscope": isoscope, "X": X}))), line


def test_the_claim_of_the_page_decides():
    from isoscope.core.table import TABLE_COLUMNS, make_table

    names = {}
    (block,) = BLOCK.findall((ROOT / "docs" / "claims.md").read_text("utf-8"))
    exec(compile(block, "docs/claims.md", "exec"), names)
    here = {"kind": "hidden", "layer": 1, "policy": "all", "metric": "drift_ratio", "model": "m"}
    for value, outcome in ((0.2, "holds"), (0.8, "fails"), (0.5, "undecided")):
        table = make_table([here | {"value": value, "low": value - 0.1, "high": value + 0.1}], TABLE_COLUMNS)
        assert names["first_layer_drifts_little"].decide(table, table).outcome == outcome
    assert "needs hidden states" in names["first_layer_drifts_little"].decide(table.iloc[:0], table).sentence


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", there.read_text("utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings], target


def test_paths_that_the_pages_name_exist():
    for page in (ROOT / "ARCHITECTURE.md", ROOT / "README.md"):
        for path in re.findall(r"`((?:tests|tools|docs|examples|src)/[\w./]*)`", page.read_text("utf-8")):
            assert (ROOT / path).exists(), path
    tree = re.search(r"^    src/isoscope/\n(.*?)\n\n", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)[1]
    named = {line.split()[0].rstrip("/") for line in tree.splitlines() if line.startswith("      ")}
    there = {path.name for path in (ROOT / "src" / "isoscope").iterdir() if not path.name.startswith("__") and path.suffix != ".typed"}
    assert named == there


def test_the_metric_of_the_readme_keeps_its_contract(tmp_path):
    source = next(block for block in BLOCK.findall((ROOT / "README.md").read_text("utf-8")) if "@metric" in block)
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "mean_sign.py").write_text(source, "utf-8")
    program = "from isoscope.metrics import registry; from isoscope.testing import check_metric as c; m = registry['mean_sign']; c(m); "
    program += "print(float(m([[1.0, -2.0, 3.0, 1.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]])))"
    env = os.environ | {"ISOSCOPE_PLUGINS": str(tmp_path)}
    done = run_process([sys.executable, "-c", program], env=env)
    assert (done.returncode, done.stdout.strip()) == (0, "0.5"), done.stderr


def test_the_page_on_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module(ROOT / "examples" / "tiny_model.py").tiny_model(tmp_path / "tiny")
    np.save("vectors.npy", np.random.default_rng(0).standard_normal((400, 16)) + 1)
    names = {}
    for block in BLOCK.findall((ROOT / "docs" / "python.md").read_text("utf-8")):
        exec(compile(block, "docs/python.md", "exec"), names)
    assert names["x"] == pytest.approx(0.5, abs=0.05)
    assert names["x"].above_null
    assert set(names["found"]) == {"mean_cosine", "drift_ratio"}
    assert set(names["cosines"]["model"]) == {"tiny", "untrained:tiny"}
    assert names["chart"] is not None
