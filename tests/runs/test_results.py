"""A run as a table: one row per number over all tokens, and more only where it is asked for."""

import shutil

import numpy as np
import pandas as pd
import pytest

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.core.progress import Progress
from isoscope.runs import results as results_module
from tests.measuring.made_runs import corpus, moved, write

SITE = ["model", "stack", "kind", "layer", "head", "metric"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    x, mask = corpus(np.random.default_rng(0), 40)
    return write(tmp_path_factory.mktemp("made") / "run", [moved(x, 0.2), moved(x, 0.6)], mask, final=moved(x, 3.0))


def test_a_table_has_one_row_per_number(run):
    table = run.table()
    assert set(table["policy"]) == {"all"}
    assert not table.duplicated(SITE).any()
    assert not run.table("mean_cosine").duplicated(SITE).any()


def test_other_policies_are_asked_for(run):
    every = run.table(policy="every")
    policies = ["all", "no-special", "body"]
    assert list(every["policy"].unique()) == policies
    assert [len(run.table(policy=policy)) for policy in policies] == [len(run.table())] * 3
    assert len(every) == 3 * len(run.table())
    assert run.table("mean_cosine", "body").equals(every.query("metric == 'mean_cosine' and policy == 'body'").reset_index(drop=True))
    with pytest.raises(IsoscopeError, match=r"^The policy 'bdy' is not in this run; it has all, body, no-special and every, did you mean"):
        run.table(policy="bdy")


def test_the_state_after_the_final_norm_has_a_layer_of_its_own(run):
    """So that a pivot over layers averages nothing."""
    table = run.table("mean_norm")
    assert table["layer"].is_unique
    wide = table.pivot_table(index="model", columns="layer", values="value")
    assert list(wide.columns) == [0, 1, 2]
    assert wide.loc["net", 2] == table.set_index("kind").loc["final", "value"]


def test_cached_tables_hold_the_last_step_of_a_suite_only(small_models, texts, tmp_path):
    """Metrics that take seconds are computed for the last step alone, and equal those of `table`."""
    suite = tmp_path / "suite"
    for step in (0, 1):
        shutil.copytree(small_models("bert"), suite / f"step-{step}")
    with pytest.warns(isoscope.IsoscopeWarning, match="same weights"):
        results = isoscope.sweep(str(suite), str(texts), tmp_path / "run", layers="1", taps="hidden", max_items=8, seq_len=32, quiet=True)
    rows, series = results.cached_tables(["hubness", "dimension_share"], Progress(quiet=True))
    assert set(rows["step"]) == {1}
    assert set(series["step"]) == {1}
    asked = results.table("hubness", "every").query("step == 1")
    assert rows["value"].tolist() == asked["value"].tolist()
    assert len(rows)
    assert set(series["name"]) == {"dimension_share"}


def test_cached_tables_are_computed_once_and_again_for_a_new_cell(small_models, texts, tmp_path, monkeypatch):
    def measured():
        return isoscope.measure(small_models("bert"), str(texts), tmp_path / "run", layers="0,1", max_items=8, seq_len=32, quiet=True)

    names, quiet, computed = ["hubness", "two_nn", "gride_scales"], Progress(quiet=True), []
    whole = results_module.tables
    monkeypatch.setattr(results_module, "tables", lambda *given, **named: computed.append(named["names"]) or whole(*given, **named))
    first = measured().cached_tables(names, quiet)
    again = measured().cached_tables(names, quiet)
    assert computed == [["gride_scales", "hubness"]]  # two_nn is in the table already
    for one, other in zip(first, again, strict=True):
        pd.testing.assert_frame_equal(one, other)
    assert set(first[0]["metric"]) == {"hubness", "two_nn"}
    assert set(first[1]["name"]) == {"gride_scales"}
    pd.testing.assert_frame_equal(first[1], isoscope.open(tmp_path / "run").series("gride_scales"))
    assert "hubness" not in set(isoscope.open(tmp_path / "run").table()["metric"])
    shutil.rmtree(tmp_path / "run" / "cells")
    computed.clear()
    measured().cached_tables(names, quiet)
    assert computed == [["gride_scales", "hubness"]]


def test_cached_tables_of_a_run_that_cannot_be_written_to(small_models, texts, tmp_path, capsys):
    results = isoscope.measure(small_models("bert"), str(texts), tmp_path / "run", layers="1", max_items=8, seq_len=32, quiet=True)
    (results.path / results_module.CACHE).write_text("in the way")
    rows, _ = results.cached_tables(["hubness"], Progress())
    assert len(rows)
    assert "the next call computes this again" in " ".join(capsys.readouterr().err.split())
