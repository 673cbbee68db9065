"""Without a command, and at the end of each: what to do next."""

import re

from isoscope.cli.app import list_verbs
from tests.cli.calling import isoscope


def test_without_a_command_there_are_commands_to_start_with():
    answer = isoscope().worked()
    suggested = re.findall(r"^  isoscope ([a-z-]+)", answer.out, re.MULTILINE)
    known = {verb for verbs in list_verbs().values() for verb in verbs}
    assert {"embeddings", "measure", "table", "report", "sweep", "dynamics"} <= set(suggested) <= known


def test_help_lists_every_command_under_its_task():
    answer = isoscope("--help").worked()
    headings = re.findall(r"^╭─ (.+?) ─+╮$", answer.out, re.MULTILINE)
    assert headings == ["Options", "Embeddings", "Models: measure into a run", "Read a run", "Keep runs in order", "Studies", "Look up"]
    for verbs in list_verbs().values():
        for verb in verbs:
            assert re.search(rf"^│ {verb} ", answer.out, re.MULTILINE), verb


def test_commands_end_with_what_to_do_next(good_run, tmp_path):
    for words, suggestion in [
        (("verify", good_run), f"isoscope table {good_run} --wide"),
        (("compare", good_run, good_run), f"isoscope report {good_run} --out report.html"),
        (("list", "recipes"), "isoscope train NAME"),
        (("report", good_run, "--out", tmp_path / "page.html"), f"isoscope serve {good_run}"),
        (("cite", good_run), "isoscope report "),
    ]:
        answer = isoscope(*words).worked()
        assert suggestion in answer.err.partition("Next:\n")[2], words
        assert "Next:" not in answer.out


def test_output_for_machines_comes_without_advice(good_run):
    assert isoscope("table", good_run).worked().err == ""
    assert isoscope("compare", good_run, good_run, "--json").worked().err == ""
    assert isoscope("list", "recipes", "--json").worked().err == ""
    assert isoscope("verify", good_run, "-q").worked().err == ""
