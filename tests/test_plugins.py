"""The public interface for extensions is complete, documented and light, and what is documented uses nothing else."""

import ast
import inspect
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import isoscope.plugins
from tests.patience import run_process

ROOT = Path(__file__).parents[1]
PUBLIC = {"isoscope", "isoscope.plugins", "isoscope.testing"}
DECLARATION = re.compile(r"^@(metric|series|profile|figure|section\.claim)\(", re.MULTILINE)
IMPORT = re.compile(r"^\s*(?:from|import) (isoscope[\w.]*)", re.MULTILINE)
NEEDS_TORCH = ("isoscope.models.",)

NORM_SPREAD = '''
"""How much the norms of points differ."""

import numpy as np

from isoscope.plugins import Number, Question, metric


@metric(reads=("sums",), range=(0.0, 1.0), title="Spread of norms", question=Question.COMMON_MEAN)
def norm_spread(cloud):
    """How much the norms of points differ, as a part of their root mean square.

    ``√(1 − (E‖x‖)²/E‖x‖²)``. Range 0 to 1. Null: about 1/√(2d), that of a standard normal vector.
    """
    value = np.sqrt(max(0.0, 1 - (cloud.moments.norm / cloud.n) ** 2 / (cloud.moments.norm2 / cloud.n)))
    return Number(value, n=cloud.n, d=cloud.d, null=(2 * cloud.d) ** -0.5)
'''


def imports_for_type_checkers():
    """Module → names, from the block under `if TYPE_CHECKING`."""
    tree = ast.parse(Path(isoscope.plugins.__file__).read_text("utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return {statement.module: tuple(alias.name for alias in statement.names) for statement in block.body}


def test_every_name_is_resolved_where_type_checkers_look_for_it():
    assert imports_for_type_checkers() == isoscope.plugins._NAMES
    assert sorted(isoscope.plugins._DEFINED_IN) == sorted(isoscope.plugins.__all__)
    for name, module in isoscope.plugins._DEFINED_IN.items():
        assert getattr(isoscope.plugins, name) is getattr(sys.modules[module], name)
    with pytest.raises(AttributeError, match=r"isoscope\.plugins.*no attribute 'Cluod'"):
        isoscope.plugins.Cluod  # noqa: B018


@pytest.mark.parametrize("name", isoscope.plugins.__all__)
def test_every_name_is_documented(name):
    thing = getattr(isoscope.plugins, name)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        assert (inspect.getdoc(thing) or "").strip(), name
    else:  # a constant or a registry
        assert f"`{name}`" in isoscope.plugins.__doc__


def test_decorators_show_their_arguments():
    """They are made from the classes; `help(metric)` must still explain every argument."""
    for decorator, kind in (("metric", "Metric"), ("series", "Series"), ("profile", "Profile")):
        arguments = list(inspect.signature(getattr(isoscope.plugins, decorator)).parameters)
        assert "function" not in arguments
        assert set(arguments) == set(inspect.signature(getattr(isoscope.plugins, kind)).parameters) - {"function"}
        assert all(f"    {argument}: " in getattr(isoscope.plugins, decorator).__doc__ for argument in arguments)


def test_only_what_feeds_models_needs_torch():
    light = [name for name, module in isoscope.plugins._DEFINED_IN.items() if not module.startswith(NEEDS_TORCH)]
    program = "import sys, isoscope.plugins, isoscope.testing\n"
    program += f"for name in {light}: getattr(isoscope.plugins, name)\n"
    program += "assert not {'torch', 'transformers'} & set(sys.modules)\n"
    program += "isoscope.plugins.Family; assert 'torch' in sys.modules"
    done = run_process([sys.executable, "-c", program])
    assert done.returncode == 0, done.stderr
    assert len(light) > 30


@pytest.mark.parametrize("path", [*(ROOT / "docs" / "how-to").glob("*.md"), *(ROOT / "examples").glob("*.py")], ids=lambda path: path.name)
def test_how_to_pages_and_examples_import_public_modules_only(path):
    assert set(IMPORT.findall(path.read_text("utf-8"))) <= PUBLIC


def test_plugins_in_tests_import_public_modules_only():
    """Tests that write a plugin show how one is written."""
    seen = 0
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text("utf-8")
        if "ISOSCOPE_PLUGINS" in text:
            strings = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant) and isinstance(node.value, str))
            for source in (
                string for string in strings if re.search(r"^@(metric|series|profile|figure|section\.claim)\(", string, re.MULTILINE)
            ):
                assert set(IMPORT.findall(source)) <= PUBLIC, path
                seen += 1
    assert seen >= 4


@pytest.fixture
def environment(tmp_path):
    """An environment in which a metric was added by one file and by nothing else."""
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "norm_spread.py").write_text(NORM_SPREAD, "utf-8")
    return os.environ | {"ISOSCOPE_PLUGINS": str(tmp_path)}


def test_a_new_metric_needs_one_file_and_its_brute_force(environment):
    """All tests that hold for every metric run with it: contracts, tables, pages, stored results. Only brute force asks for more."""
    follow = ["tests/test_contracts.py", "tests/runs/test_tables.py", "tests/golden/test_golden.py", "tests/examples/test_docs.py"]
    brute_force = "test_every_metric_has_a_second_implementation"
    words = "norm_spread or every_metric or made_pages or registry or stored_metric or new_metric"
    pytest_ = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:doctest", "-o", "addopts=", "-v"]
    done = run_process(
        [*pytest_, *follow, f"tests/metrics/test_against_brute_force.py::{brute_force}", "-k", words], env=environment, cwd=ROOT
    )
    for test in (
        "test_metric[norm_spread]",
        "needs_one[norm_spread]",
        "test_made_pages_are_what_would_be_made",
        "test_no_stored_metric_or_series_is_lost",
    ):
        assert re.search(re.escape(test) + r"\s+PASSED", done.stdout), done.stdout + done.stderr
    assert re.search(brute_force + r"\s+FAILED", done.stdout), done.stdout
    assert "norm_spread" in done.stdout.partition("= FAILURES =")[2]
    assert re.search(r"1 failed, \d+ passed(?!.* error)", done.stdout), done.stdout


def test_a_new_metric_is_computed_and_has_a_page(environment, tmp_path):
    x = np.random.default_rng(0).lognormal(size=(50, 3))
    np.save(tmp_path / "x.npy", x)
    norms = np.linalg.norm(x, axis=1)
    done = run_process([sys.executable, "-m", "isoscope", "embeddings", str(tmp_path / "x.npy"), "--json", "--quiet"], env=environment)
    assert done.returncode == 0, done.stderr
    value = float(re.search(r'"norm_spread": \{\s*"value": ([\d.]+)', done.stdout)[1])
    assert value == pytest.approx(norms.std() / np.sqrt((norms**2).mean()))
    program = "import sys; sys.path.insert(0, 'tools'); import make_docs as m, isoscope\n"
    program += "print(m.metric_page(isoscope.metrics.norm_spread)); print(m.metrics_page(m.entries()))"
    done = run_process([sys.executable, "-c", program], env=environment, cwd=ROOT)
    assert "# norm_spread" in done.stdout, done.stderr
    section = done.stdout.partition("## How much of that is a common mean?")[2].partition("\n## ")[0]
    assert "[norm_spread](metrics/norm_spread.md)" in section
