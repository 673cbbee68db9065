"""A run at a prompt: what it holds, and its rows in other forms."""

import numpy as np
import pytest

from isoscope.runs.result_views import order_metrics
from tests.measuring.made_runs import corpus, moved, write


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    x, mask = corpus(np.random.default_rng(0), 40)
    return write(tmp_path_factory.mktemp("made") / "run", [moved(x, 0.2), moved(x, 0.6)], mask, final=moved(x, 3.0))


def test_a_run_names_its_models_layers_metrics_and_what_to_call_next(run):
    first, head, row, metrics, following = repr(run).splitlines()
    assert first == f"Run {run.path}: 1 model, 1 cell"
    assert head.split() == ["model", "measured", "layers", "data"]
    assert row.startswith(run.manifests()[0]["columns"]["model"])
    assert "0–1 and final norm" in row
    assert "between_cosine, " in metrics
    for call in ("mean_cosine", "wide=True"):
        assert call in following
    assert "<table>" in run._repr_html_()
    assert all(hasattr(run, name) for name in ("table", "to_frame", "plot", "series", "statistics"))


def test_the_wide_frame_has_one_row_per_place_and_the_values_of_the_table(run):
    table, wide = run.table(policy="every"), run.to_frame(policy="every", wide=True)
    assert len(wide) == len(table[["kind", "layer", "policy"]].drop_duplicates())
    for row in table.to_dict("records"):
        same = wide[(wide["kind"] == row["kind"]) & (wide["policy"] == row["policy"])]
        same = same[same["layer"].isna() if row["layer"] is None or row["layer"] != row["layer"] else same["layer"].eq(row["layer"])]
        assert len(same) == 1
        np.testing.assert_equal(same[row["metric"]].item(), row["value"])


def test_rows_without_settings_keep_their_notes_and_cells(run):
    table, frame = run.table(), run.to_frame()
    assert "spec" not in frame
    assert set(frame["cell"].dropna()) <= {manifest["key"] for manifest in run.manifests()}
    assert frame["value"].equals(table["value"])
    assert frame["note"].notna().sum() == sum('"note"' in spec for spec in table["spec"]) > 0


def test_metrics_are_ordered_by_their_question():
    assert order_metrics(["two_nn", "isoscore", "unknown", "mean_cosine", "drift_ratio"]) == [
        *("mean_cosine", "drift_ratio", "isoscore", "two_nn", "unknown")
    ]
