"""Citing a run: what is in it is named, what is not is not, and every source that a docstring names has an entry."""

import re
import unicodedata

import numpy as np
import pytest

from isoscope.claims import papers
from isoscope.core.errors import IsoscopeError
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.metrics import registry
from isoscope.runs.citation import bibtex, citation, first_author, references, sources_of
from isoscope.runs.results import Results
from isoscope.runs.stored_cell import manifest_of
from tests.measuring.made_runs import corpus, write
from tests.runs.packing import write_made_cell


def test_every_year_in_a_docstring_is_a_source():
    """A metric that names a source which has no entry would be cited without it."""
    for entry in registry:
        text = entry.__doc__.partition(">>>")[0]
        years = re.findall(r"[( ]((?:19|20)\d\d)\)", text)
        found = [int(key[-4:]) for key in sources_of(entry.name)]
        assert set(map(int, years)) == set(found), entry.name
        assert len(years) <= len(found) or len(set(years)) < len(years), entry.name


def test_every_entry_is_used_and_well_formed():
    used = {key for entry in registry for key in sources_of(entry.name)}
    assert set(references()) <= used
    assert list(references()) == sorted(references())
    for key in [*references(), *papers.names(), "isoscope"]:
        entry = bibtex(key)
        assert re.match(r"@\w+\{[\w-]+,\n", entry)
        assert entry.count("{") == entry.count("}")
        assert "title = {" in entry
    for key, entry in references().items():
        assert f"year = {{{key[-4:]}}}" in entry
        author = unicodedata.normalize("NFD", first_author(entry)).encode("ascii", "ignore").decode()
        assert author.lower() == key[:-4]


@pytest.mark.parametrize(("key", "author"), [("bis2021", "Biś"), ("radovanovic2010", "Radovanović"), ("levina2004", "Levina")])
def test_an_author_is_spelled_as_in_a_docstring(key, author):
    assert first_author(references()[key]) == author


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    x, mask = corpus(np.random.default_rng(0), 40)
    return write(tmp_path_factory.mktemp("cite") / "run", [x, x + 1], mask, model="org/net"), int(mask.sum())


def test_the_methods_say_what_moved_the_numbers(run):
    results, tokens = run
    said = " ".join(citation(results).methods)
    for piece in ("org/net (weights r)", f"40 documents ({tokens:,} ", "“made” (fingerprint f)", "at most 12", "in float64", "isoscope 0."):
        assert piece in said
    assert "token policies all, no-special, body" in said
    assert "jackknife over documents" in said


def test_what_is_in_the_run_is_cited_and_nothing_else(run):
    found = citation(run[0]).entries
    keys = list(found)
    assert keys[:3] == ["isoscope", "godey2024", "razzhigaev2024"]
    assert {"ethayarajh2019", "roy2007", "facco2017", "garrido2023"} <= set(keys)
    assert not {"denti2022", "radovanovic2010", "gu2025"} & set(keys), "on request, or of attention"


def test_checkpoints_are_counted(tmp_path):
    x, mask = corpus(np.random.default_rng(0), 40)
    for step in (0, 1000):
        for seed in (0, 1):
            results = write(tmp_path / "suite", [x], mask, model="suite", step=step, seed=seed)
    assert "suite (4 checkpoints, steps 0 to 1,000, seeds 0, 1)" in citation(results).methods[0]


def test_a_block_is_cited_and_an_empty_experiment_is_not(tmp_path):
    where = {"model": "block bert post-LN", "family": "block", "stack": "block", "kind": "block", "policy": "all"}
    rows = make_table([where | {"metric": "block_cosine", "value": 0.1}], TABLE_COLUMNS)
    spec = {"data": "16 sequences of 512 embeddings", "draws": 5, "d": 768, "heads": 12}
    for name, experiment in (("block", "block"), ("chance", "baseline")):
        manifest = manifest_of({"experiment": experiment}, {"model": "block bert post-LN"}, spec, "rows")
        write_made_cell(tmp_path / name, "cell", manifest, rows, make_table([], SERIES_COLUMNS), None)
    found = citation(Results(tmp_path / "block"))
    assert found.methods[0].startswith("We measured the untrained block bert post-LN (d = 768, 12 heads) on 16 sequences")
    assert list(found.entries) == ["isoscope", "godey2024"]
    with pytest.raises(IsoscopeError, match="holds no measurement to cite"):
        citation(Results(tmp_path / "chance"))
