"""A paper carried out: what is planned, what is done once, what is missing and said."""

import json

import pytest

import isoscope
from isoscope.claims import papers
from isoscope.claims.paper import CHOICES
from isoscope.figures import figures
from isoscope.packages.catalogue import MODELS
from isoscope.runs.run import Run
from isoscope.studies.reproduction.reproduce import Request, find_local_models, plan_reproduction, reproduce


@pytest.mark.parametrize("name", papers.names())
def test_a_paper_is_declared_whole(name):
    """Every figure is one that isoscope draws, from experiments that the paper has; every choice has a plan."""
    paper = papers[name]
    known = {experiment.name for experiment in paper.experiments}
    for figure in paper.figures:
        assert all(one in figures for one in figure.draws), figure.number
        assert set(figure.needs) <= known, figure.number
    assert known == {need for figure in paper.figures for need in figure.needs}
    assert paper.bibtex.startswith("@")
    assert paper.bibtex.count("{") == paper.bibtex.count("}")


def test_every_numbered_figure_of_godey2024_is_there():
    numbers = [figure.number for figure in papers["godey2024"].figures]
    assert {number.rstrip("ab") for number in numbers} == {str(i) for i in range(1, 24)}
    assert len(set(numbers)) == len(numbers)


def test_the_plan_names_each_piece_once_and_what_cannot_be_had(tmp_path):
    paper = papers["godey2024"]
    parts, absent = plan_reproduction(paper, Request(), tmp_path)
    assert [part.what for part in parts] == ["embedded:decoder", "embedded:encoder", "block", "chance"]
    assert [one.what.partition(":")[0] for one in absent] == ["token", "speech", "vision", "convolution"]
    assert all("--models paper" in one.command and "no such model comes with isoscope" in one.reason for one in absent)
    parts, absent = plan_reproduction(paper, Request(models="paper", data=("paper",)), tmp_path)
    assert not absent
    assert "isoscope measure 'openai-community/gpt2' --data 'hf:Salesforce/wikitext" in next(p.command for p in parts if "gpt2" in p.what)
    assert [part.what for part in plan_reproduction(paper, Request(figure="9"), tmp_path)[0]] == ["block"]


def test_bad_words_are_refused_with_a_sentence(tmp_path):
    with pytest.raises(isoscope.IsoscopeError, match="There is no paper called 'godey2023', did you mean godey2024"):
        reproduce("godey2023", tmp_path)
    with pytest.raises(isoscope.IsoscopeError, match="has no figure '24'"):
        plan_reproduction(papers["godey2024"], Request(figure="24"), tmp_path)
    with pytest.raises(isoscope.IsoscopeError, match="--models takes embedded, packages, local, paper; got 'papers', did you mean paper"):
        Request(models="papers")
    with pytest.raises(isoscope.IsoscopeError, match="There is no folder"):
        find_local_models(str(tmp_path / "none"))
    with pytest.raises(isoscope.IsoscopeError, match="--models local needs the folder of the models"):
        plan_reproduction(papers["godey2024"], Request(models="local"), tmp_path)
    assert set(CHOICES) == {"embedded", "packages", "local", "paper"}


def test_packages_are_measured_on_data_that_suit_them(tmp_path):
    """A model of reaction SMILES reads reactions, and none reads prose that it was not made for."""
    request = Request(models="packages")
    parts, absent = plan_reproduction(papers["godey2024"], request, tmp_path)
    models = [part.what for part in parts if part.kind == "model"]
    assert len(models) == len(set(models)) == len(MODELS)
    assert {"package:stories15m", "package:moonshine-tiny", "package:rxnfp-ft"} <= set(models)
    assert not absent
    sources = request.sources_for(parts[0].experiment)
    assert sources[:2] == ("rxnmapper=package:reactions", "rxnfp-pretrained=package:reactions")
    assert sources[-3:] == ("package:speech", "package:photographs", "embedded")
    assert Request(models="packages", data=("x.txt",)).sources_for(parts[0].experiment) == ("x.txt",)


def test_chance_is_drawn_without_a_model_and_done_once(tmp_path):
    found = reproduce("godey2024", tmp_path / "run", Request(figure="17"), quiet=True)
    assert [(one.figure.number, one.drawn) for one in found.outcomes] == [("17", True)]
    (before,) = Run(tmp_path / "run").cells()
    made = before.manifest["created"]
    reproduce("godey2024", tmp_path / "run", Request(figure="17"), quiet=True)
    (after,) = Run(tmp_path / "run").cells()
    assert after.manifest["created"] == made


def test_local_models_are_measured_and_a_broken_one_stops_nothing(small_models, texts, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    for name in ("bert", "gpt2"):
        (models / name).symlink_to(small_models(name))
    (models / "broken").mkdir()
    (models / "broken" / "config.json").write_text("{}")
    asked = Request("local", (str(texts),), "profiles", str(models), {"max_items": 8})
    found = reproduce("razzhigaev2024", tmp_path / "run", asked, quiet=True)
    assert [one.what.rpartition("/")[2] for one in found.missing] == ["broken"]
    assert "isoscope measure" in found.missing[0].command
    table, _ = found.tables
    assert set(table["model"]) == {"small-bert", "small-gpt2"}
    assert [(one.figure.number, one.drawn) for one in found.outcomes] == [("profiles", True)]


def test_a_hub_that_is_not_there_is_a_reason_not_a_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    with pytest.raises(isoscope.IsoscopeError, match="Nothing of godey2024 could be done"):
        reproduce("godey2024", tmp_path / "none", Request(models="paper", figure="4"), quiet=True)
    found = reproduce("godey2024", tmp_path / "run", Request(models="paper", figure="18"), quiet=True)
    needed = papers["godey2024"].select_figures("18")[0].needs
    models = [model for experiment in papers["godey2024"].experiments if experiment.name in needed for model in experiment.paper]
    assert len(found.missing) == len(models)
    assert all("HF_HUB_OFFLINE" in one.reason for one in found.missing)
    assert json.dumps([one.command for one in found.missing]).count("isoscope measure") == len(found.missing)
