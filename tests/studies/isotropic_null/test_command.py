"""isoscope isotropic-null: the published table, what a run's models have beside it, and one sentence for a mistake."""

import json
import re

import numpy as np
import pytest

from isoscope.core.table import SERIES_COLUMNS, make_table
from isoscope.studies.isotropic_null.experiment import DIMENSIONS, closed_forms
from tests.cli.calling import isoscope, process
from tests.figures.made_table import made_zoo
from tests.runs.packing import write_made_cell

PERCENTILES = ["0.412", "0.206", "0.145", "0.103", "0.0727", "0.0594", "0.0514", "0.0363", "0.0257", "0.0182"]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """A run of three models, of which only the rows were kept."""
    path, table = tmp_path_factory.mktemp("baseline") / "zoo", made_zoo()
    for i, model in enumerate(("gpt2", "mit-b2", "whisper-base")):
        manifest = {"isoscope": "0", "created": f"{i:02}", "columns": {"model": model}, "spec": {}, "keep": "rows", "identity": {}}
        write_made_cell(
            path, f"cell{i}", manifest, table[table["model"] == model].reset_index(drop=True), make_table([], SERIES_COLUMNS), None
        )
    return path


def test_the_table_is_the_published_one():
    said = isoscope("isotropic-null").worked().out
    rows = re.findall(r"^ +(\d+) +(0\.\d{3,4}) ", said, re.MULTILINE)
    assert rows[: len(DIMENSIONS)] == list(zip(map(str, DIMENSIONS), PERCENTILES, strict=True))  # in the first part of the table
    for sentence in ("far too lenient: at d = 16 by a factor of 2,624.", "any of 144 heads of 64 dimensions exceeds 0.430"):
        assert sentence in " ".join(said.split())
    assert "TwoNN" not in said
    assert max(map(len, said.splitlines())) <= 100


def test_json_holds_every_form():
    found = json.loads(isoscope("isotropic-null", "--d", "768", "--d", "16,768", "--n", 100_000, "--json").worked().out)
    assert [level["d"] for level in found["levels"]] == [16, 768]
    for level in found["levels"]:
        assert level == {"d": level["d"]} | closed_forms(level["d"], 100_000)
    assert found["heads"]["threshold"] == pytest.approx(0.430, abs=5e-4)
    beside = json.loads(isoscope("isotropic-null", "--d", "64", "--n", "64", "--json").worked().out)["levels"][0]
    assert beside["smallest"] is None  # where d is n the lowest edge is at zero


def test_simulation_stands_beside_the_forms():
    words = ("isotropic-null", "--d", "10,64", "--n", 1000, "--two-nn", "--monte-carlo", 200, "--heads", 12)
    found = json.loads(isoscope(*words, "--json").worked().out)
    for level in found["levels"]:
        assert len(level["simulated"]) == 8
        assert all(drawn["agrees"] for drawn in level["simulated"].values())
    assert found["levels"][0]["two_nn"]["n"] == 1000
    assert found["levels"][0]["two_nn"]["value"] == pytest.approx(9.5, abs=0.6)
    assert found["heads"]["simulated"]["agrees"]
    said = isoscope(*words, "--seed", 3).worked()
    assert len(re.findall(r" yes *$", said.out, re.MULTILINE)) == 2 * 8 + 1
    assert " NO" not in said.out
    assert said.err == ""
    assert max(map(len, said.out.splitlines())) <= 100


def test_models_of_a_run(zoo, tmp_path):
    out = tmp_path / "new" / "figures"
    found = json.loads(isoscope("isotropic-null", "--run", zoo, "--policy", "body", "--out", out, "--json").worked().out)
    names = ["cosine_density", "isotropic_level"]
    assert sorted(path.name for path in out.iterdir()) == sorted(f"{name}.{form}" for name in names for form in ("pdf", "png", "svg"))
    assert sorted(found["figures"]) == sorted(str(path) for path in out.iterdir())
    assert "gpt2" in (out / "isotropic_level.svg").read_text("utf-8")
    table = made_zoo()
    rows = table[table["kind"].eq("hidden") & table["metric"].eq("mean_cosine") & table["policy"].eq("body")]
    assert [(row["model"], row["d"]) for row in found["models"]] == [
        ("gpt2", 768),
        *(("mit-b2", d) for d in (64, 128, 320, 512)),
        ("whisper-base", 512),
    ]
    for row in found["models"]:
        own = rows[rows["model"].eq(row["model"]) & rows["d"].eq(row["d"])]
        assert row["layers"] == len(own)
        assert row["mean_cosine"] == pytest.approx(float(np.mean(own["value"])))
        assert row["isotropy_score"] is None  # the run has only rows, from before there was such a score
    said = isoscope("isotropic-null", "--run", zoo).worked().out
    assert re.search(r"^ gpt2 +768 +13 ", said, re.MULTILINE)


def test_a_measured_run_has_the_score(good_run):
    found = json.loads(isoscope("isotropic-null", "--run", good_run, "--d", 32, "--json").worked().out)["models"]
    assert [row["d"] for row in found] == [32, 32]
    for row in found:
        assert 0 < row["isotropy_score"] < 1.1
        assert row["isotropy_score"] == pytest.approx(1 - row["mean_cosine"], abs=0.05)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--d", "0"), "--d takes dimensions from 2 to 1,000,000, as in --d 768 or --d 16,64; got '0'."),
        (("--d", "x"), "got 'x'."),
        (("--d", "-3"), "got '-3'."),
        (("--d", "16,"), "got ''."),
        (("--d", "7.5"), "got '7.5'."),
        (("--d", "10000000"), "got '10000000'."),
        (("--n", "1"), "--n must be at least 10; got 1."),
        (("--heads", "0"), "--heads must be at least 1; got 0."),
        (("--head-d", "1"), "--head-d must be at least 2; got 1."),
        (("--seed", "-1"), "--seed must be at least 0; got -1."),
        (("--monte-carlo", "3"), "--monte-carlo needs at least 100 draws to estimate its error; got 3."),
        (
            ("--monte-carlo", "100000"),
            "--monte-carlo 100000 at --n 4096 and --heads 144 takes minutes; ask for fewer draws or fewer points.",
        ),
        (("--two-nn", "--d", "16,99999"), "--two-nn simulates at most 16,384 dimensions; got --d 99999"),
        (("--run", "nowhere"), "There is no run at nowhere"),
    ],
)
def test_rubbish_is_one_sentence(words, said):
    isoscope("isotropic-null", *words).refused(said)


def test_a_run_without_that_policy_and_a_folder_that_cannot_be(zoo, tmp_path):
    isoscope("isotropic-null", "--run", zoo, "--policy", "bdy").refused("did you mean body?")
    (tmp_path / "file").write_text("")
    isoscope("isotropic-null", "--out", tmp_path / "file" / "folder").refused("Cannot write")


def test_it_needs_no_torch():
    answer = process("isotropic-null", "--d", "64", PYTHONPROFILEIMPORTTIME="1")
    assert answer.code == 0
    assert "isoscope.studies.isotropic_null.experiment" in answer.err
    assert not re.search(r"\| +(torch|transformers)$", answer.err, re.MULTILINE)
