"""Altair through the lazy module is Altair itself, imported when a chart needs it and not before."""

import inspect
import os
import sys

import altair
import pytest

from isoscope.charts import lazy_altair
from tests.patience import run_process

PROGRAM = """
import sys
from isoscope.figures import figures
names = len(figures.names())
before = "altair" in sys.modules
from isoscope.charts import lazy_altair as alt
inspected = hasattr(alt, "__wrapped__"), "altair" in sys.modules
chart = alt.Chart
print(names > 20, before, *inspected, "altair" in sys.modules)
"""


def test_names_are_those_of_altair():
    assert lazy_altair.Chart is altair.Chart
    assert lazy_altair.Undefined is altair.Undefined
    with pytest.raises(AttributeError, match="NoSuchChart"):
        _ = lazy_altair.NoSuchChart


def test_tools_that_inspect_modules_meet_this_module_and_not_altair():
    assert altair.__version__
    assert not hasattr(lazy_altair, "__version__")
    assert inspect.getmodule(lazy_altair.__getattr__) is lazy_altair


def test_figures_are_listed_without_altair():
    done = run_process([sys.executable, "-c", PROGRAM], env=os.environ)
    assert done.stdout.split() == ["True", "False", "False", "False", "True"], done.stderr
