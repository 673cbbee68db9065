"""The application: its verbs under headings, their help, and the version."""

import pytest

from tests.cli.calling import isoscope


@pytest.mark.parametrize("verb", ["measure", "embeddings", "table", "merge", "report", "list"])
def test_help_shows_examples(verb):
    answer = isoscope(verb, "--help").worked()
    assert answer.err == ""
    assert "Example" in answer.out
    assert f"isoscope {verb} " in answer.out.partition("Example")[2]
    assert max(map(len, answer.out.splitlines())) <= 80


def test_the_version():
    from isoscope import __version__

    assert isoscope("--version").worked().out == f"isoscope {__version__}\n"
