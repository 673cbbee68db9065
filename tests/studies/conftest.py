"""Tests of studies share the tables of the figures' tests, and the runs of the command line's tests."""

from tests.cli.conftest import bert, good_run, gpt2, paragraphs
from tests.figures.conftest import specs, suite, suites, tables, zoo, zoo_spec
from tests.measuring.conftest import berts, expected, text

__all__ = ["bert", "berts", "expected", "good_run", "gpt2", "paragraphs", "specs", "suite", "suites", "tables", "text", "zoo", "zoo_spec"]
