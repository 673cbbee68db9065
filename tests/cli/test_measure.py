"""isoscope measure names the run, its cells and odd names as they are."""

import pytest

from isoscope.runs.results import Results
from tests.cli.calling import isoscope, read_csv, read_strict_json
from tests.cli.conftest import FAST


def test_measure_names_the_run_and_its_cells(good_run, bert, gpt2, paragraphs):
    words = ("measure", bert, gpt2, "--data", paragraphs, "--out", good_run)
    again = isoscope(*words).worked()
    assert again.out == f"{good_run}\n"
    assert [line.partition(" (")[0] for line in again.err.partition("Next:")[0].splitlines()] == [
        "small-bert: already measured",
        "small-gpt2: already measured",
    ]
    answer = isoscope(*words, "--json", "-q").worked()
    assert answer.err == ""
    found = read_strict_json(answer.out)
    assert found["run"] == str(good_run)
    cells = {cell["columns"]["model"]: cell for cell in found["cells"]}
    assert set(cells) == {"small-bert", "small-gpt2"}
    words = sum(len(paragraph.split()) for paragraph in paragraphs.read_text().split("\n\n"))
    assert cells["small-gpt2"]["spec"]["tokens"] == words
    assert cells["small-bert"]["spec"]["tokens"] == words + 2 * 60
    assert cells["small-bert"]["spec"]["documents"] == 60


ODD = "[red]odd[/] \"n'a me\n{0} %s [x"


def test_odd_names_are_printed_as_they_are(tmp_path, model_copy, paragraphs):
    folder = model_copy(ODD.replace("/", "|"))
    text, out = tmp_path / "[bold]da\"ta'\n.txt", tmp_path / "[blue]o'ut\nx"
    text.write_bytes(paragraphs.read_bytes())
    measured = isoscope("measure", folder, "--data", text, "--out", out, "--layers", "0").worked()
    assert measured.out == f"{out}\n"
    assert f"{folder.name}: loading\n" in measured.err
    rows = read_strict_json(isoscope("table", out, "--metric", "mean_norm", "--policy", "all", "--json").worked().out)
    assert [row["model"] for row in rows] == [folder.name]
    assert Results(out).manifests()[0]["spec"]["data"] == text.name
    assert read_csv(isoscope("table", out, "--metric", "mean_norm", "--policy", "all"))["model"].tolist() == [folder.name]
    isoscope("measure", folder, "--data", text, "--out", out, "--seq-len", "99", *FAST).refused(
        f"{folder.name.replace(chr(10), ' ')} takes at most 64 tokens"
    )


@pytest.mark.parametrize("verb", [("table",), ("measure", "--data"), ("embeddings",), ("measure",)])
def test_odd_names_in_errors(tmp_path, bert, verb):
    words = (bert, *verb[1:]) if "--data" in verb else verb[1:]
    isoscope(verb[0], *words, tmp_path / ODD).refused("[red]odd[/]", "{0} %s [x")
