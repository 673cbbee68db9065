"""The large charts of the first screen: the cosine, and the share of the dimensions in use."""

from __future__ import annotations

import pandas as pd

from isoscope.charts.layer_lines import LAYERS
from isoscope.charts.legends import PALETTE
from isoscope.report.headline import headline
from tests.report.test_model_verdicts import lines_of, rows_of


def titles_of(drawing):
    return [panel["title"] if isinstance(panel["title"], str) else panel["title"]["text"] for panel in drawing.panels]


def test_large_charts_show_cosine_and_the_share_of_dimensions_with_their_isotropic_levels():
    lines = lines_of(
        rows_of("a", {"between_cosine": [0.1, 0.2], "effective_rank": [192.0, 384.0]}),
        rows_of("b", {"between_cosine": [0.3, 0.4], "effective_rank": [8.0, 4.0]}, d=16),
    )
    drawing = headline(lines)
    assert drawing is not None
    cosine, dimensions = (pd.DataFrame(next(iter(panel["datasets"].values()))) for panel in drawing.panels)
    assert cosine["value"].tolist() == [0.1, 0.2, 0.3, 0.4]
    assert dimensions["value"].tolist() == [0.25, 0.5, 0.5, 0.25]
    assert (set(cosine["null"]), set(dimensions["null"])) == ({0.0}, {0.75})
    assert (set(cosine["metric"]), set(dimensions["metric"])) == ({"between_cosine"}, {"effective_rank/d"})
    assert headline(lines_of(rows_of("m", {"mean_cosine": [0.4]}, kind="points", layer=None))) is None


def test_models_of_different_n_have_large_charts_of_their_own_where_n_matters():
    values = {"between_cosine": [0.1, 0.2], "effective_rank": [192.0, 384.0]}
    models = rows_of("a", values), rows_of("b", values, n=5000)
    about = {"between_cosine": "population", "effective_rank": "this n"}
    drawing = headline(lines_of(*[[row | {"interval_about": about[str(row["metric"])]} for row in rows] for rows in models]))
    assert drawing is not None
    subtitles = [panel["title"].get("subtitle") if isinstance(panel["title"], dict) else None for panel in drawing.panels]
    assert subtitles == [None, "n = 1,000; compare only at equal n", "n = 5,000; compare only at equal n"]


def test_titles_say_which_pairs_a_cosine_is_over():
    """Only if every model has it, the cosine is that between items."""
    between, every = rows_of("a", {"between_cosine": [0.1, 0.2]}), rows_of("b", {"mean_cosine": [0.1, 0.2]})
    assert titles_of(headline(lines_of(between))) == ["Mean cosine between items"]
    assert titles_of(headline(lines_of(every))) == ["Mean cosine"]
    both = headline(lines_of(between, every, rows_of("c", {"effective_rank": [96.0]})))
    assert titles_of(both) == ["Mean cosine", "Dimensions in use: effective rank / d"]


def test_colours_are_those_of_all_lines_and_a_model_without_layers_has_no_curve():
    lines = lines_of(rows_of("a", {"mean_cosine": [0.5]}, kind="points", layer=None), rows_of("b", {"mean_cosine": [0.1, 0.2]}))
    (panel,) = headline(lines).panels
    (rows,) = panel["datasets"].values()
    assert {row["line"] for row in rows} == {"b"}
    levels = [layer for layer in panel["layer"] if layer["encoding"]["y"]["field"] == "null"]
    assert [layer["transform"][0]["filter"] for layer in levels] == [LAYERS]
    assert levels[0]["encoding"]["color"]["scale"] == {"domain": ["a", "b"], "range": PALETTE[:2]}
