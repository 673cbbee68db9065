"""`isoscope claims` on runs that are on disk, and the strings that the page shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from isoscope.report.paper_verdicts import verdict_rows
from isoscope.runs.stored_cell import manifest_of
from tests.claims.made_rows import LOW, RISING, THREE, Made, row, same_models, tables
from tests.cli.calling import isoscope
from tests.runs.packing import write_made_cell


def written(path: Path, made: Made) -> Path:
    """A run with these rows, as an experiment writes them."""
    identity = {"experiment": "made", "shard": [0, 1]}
    write_made_cell(path, "made", manifest_of(identity, {"model": "a"}, {}, "rows"), *tables(made), None)
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("good"), same_models(THREE, "token", RISING))


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("bad"), same_models(THREE, "token", LOW))


def test_the_table_reads_well(good: Path) -> None:
    answer = isoscope("claims", good, "--paper", "godey2024").worked()
    lines = answer.out.splitlines()
    assert max(map(cell_len, lines)) <= 80
    first = next(line for line in lines if "Every Transformer has an" in line)
    assert "holds" in first
    assert "1.00 [0.292, 1.00]" in first
    assert first.rstrip().endswith("3")
    assert "MiT (SegFormer's encoder) is isotropic" not in answer.out  # nor does what nothing speaks to need a row
    assert "2 mit_is_isotropic: Not tested. It needs a MiT" in " ".join(answer.out.split())
    assert "3 resnet50_falls_with_depth, 3 resnet50_is_anisotropic: Not tested" in " ".join(answer.out.split())
    assert "every_transformer_has_an_anisotropic_layer" not in answer.out  # what holds needs no sentence


def test_too_few_models_are_said_once(tmp_path: Path) -> None:
    two = written(tmp_path / "two", same_models(THREE[:2], "token", RISING))
    said = " ".join(isoscope("claims", two).worked().out.split())
    assert re.search(r"\b[2-9] claims about kinds of models need at least 3 models; this run has 2\.", said)
    assert "takes at least 3" not in said
    assert "every_transformer_has_an_anisotropic_layer, undecided: The greatest cosine over the layers" in said


def test_where_nothing_was_tried_there_is_no_table(tmp_path: Path) -> None:
    nothing = written(tmp_path / "run", ([row("a", "token", "mean_norm", 1.0, layer=0)], []))
    said = isoscope("claims", nothing).worked().out
    assert "claims were not tested and are therefore undecided:" in said
    assert "verdict" not in said.split("were not tested")[0]


def test_strict_says_so_where_a_claim_fails(good: Path, bad: Path) -> None:
    assert isoscope("claims", good, "--strict").code == 0
    answer = isoscope("claims", bad, "--strict")
    assert (answer.code, answer.err.partition("\n")[0]) == (1, "Next:")
    assert "every_transformer_has_an_anisotropic_layer, fails:" in answer.out
    assert isoscope("claims", bad).code == 0


def test_json_has_everything(bad: Path) -> None:
    rows = json.loads(isoscope("claims", bad, "--json", "--paper", "godey2024").worked().out)
    one = next(row for row in rows if row["name"] == "every_transformer_has_an_anisotropic_layer")
    assert (one["outcome"], one["number"], one["paper"]) == ("fails", "1", "godey2024")
    assert [found["on"] for found in one["findings"]] == list(THREE)
    assert one["findings"][0]["effect"] == "0.0100 [-0.00373, 0.0200]"  # seven layers, of which one may lie high by chance
    assert one["refuted_by"]


def test_several_runs_are_read_together(good: Path, tmp_path: Path) -> None:
    more = written(tmp_path / "more", same_models(["d"], "token", LOW))
    rows = json.loads(isoscope("claims", good, more, "--json").worked().out)
    one = next(row for row in rows if row["name"] == "every_transformer_has_an_anisotropic_layer")
    assert (one["outcome"], one["tried_on"]) == ("fails", "4")


def test_mistakes_are_told_in_a_sentence(good: Path, tmp_path: Path) -> None:
    isoscope("claims", good, "--paper", "godey").refused("godey2024")
    isoscope("claims", tmp_path / "nowhere").refused("nowhere")
    isoscope("claims", good, "--metric", "local_shar").refused("local_share")


def test_rows_for_the_page_are_strings() -> None:
    rows = verdict_rows(*tables(same_models(THREE, "token", RISING)))
    one = next(row for row in rows if row.name == "every_transformer_has_an_anisotropic_layer")
    assert (one.outcome, one.effect, one.threshold, one.tried_on) == ("holds", "1.00 [0.292, 1.00]", "0.250", "3")
    assert [found.on for found in one.findings] == list(THREE)
    nothing = next(row for row in rows if row.name == "mit_is_isotropic")
    assert (nothing.effect, nothing.threshold, nothing.tried_on, nothing.findings) == ("", "", "", ())
