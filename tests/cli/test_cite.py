"""isoscope cite prints the methods and BibTeX of a run."""

import json

from tests.cli.calling import isoscope


def test_cite(good_run, tmp_path):
    said = isoscope("cite", good_run).worked().out
    assert said.startswith("We measured small-bert (weights ")
    assert "@software{isoscope," in said
    told = json.loads(isoscope("cite", good_run, "--json").worked().out)
    assert said.startswith(" ".join(told["methods"]))
    assert list(told["bibtex"])[:2] == ["isoscope", "godey2024"]
    isoscope("cite", tmp_path / "none").refused("There is no run at")
