"""A run as a table: one row per number over all tokens, and more only where it is asked for."""

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from tests.engine.made_runs import corpus, moved, write

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
