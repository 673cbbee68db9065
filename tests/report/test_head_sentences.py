"""Sentences and figures about attention, against tables whose answer is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.estimation.isotropic_quantiles import one_pair
from isoscope.figures import figures
from isoscope.figures.attention import chance_levels
from isoscope.report.head_sentences import alignment, first_token_effect, sharpness, sinks
from isoscope.report.line import all_lines
from isoscope.report.page import overview
from isoscope.report.summary import summarise

LAYERS, HEADS = 4, 3
MASS = np.array([[0.1, 0.2, 0.05], [0.9, 0.8, 0.7], [0.1, 0.6, 0.2], [0.9, 0.8, 0.7]])
ENTROPY = np.array([[0.9, 0.8, 0.7], [0.5, 0.4, 0.3], [0.6, 0.5, 0.4], [0.2, 0.1, 0.03]])
COSINE = np.array([[0.7, 0.1, 0.0], [-0.8, 0.0, 0.1], [0.1, 0.2, -0.1], [0.9, 0.0, 0.0]])
MEANT = {"sink_mass": MASS, "attention_entropy_normalised": ENTROPY, "qk_cosine": COSINE, "drift_sharpening": ENTROPY}


def made(meant: dict[str, np.ndarray] = MEANT) -> pd.DataFrame:
    """A table of one model: hidden states whose top share the first token makes, and heads."""
    who = {"model": "org/model", "stack": "decoder", "modality": "text", "family": "decoder"}
    rows: list[dict[str, object]] = []
    for policy in ("all", "body"):
        for layer in range(LAYERS + 1):
            for metric, value in (("top_share", 0.95 if policy == "all" else 0.1), ("mean_cosine", 0.5), ("between_cosine", 0.5)):
                at = {"kind": "hidden", "layer": layer, "policy": policy, "metric": metric, "value": value + 0.01 * layer}
                rows.append(who | at | {"n": 900, "d": 64, "low": value, "high": value + 0.1})
        for metric, values in meant.items():
            for layer, heads in enumerate(values, 1):
                for head, value in [*enumerate(heads), (None, heads.mean())]:
                    at = {"kind": "attention", "layer": layer, "head": head, "policy": policy, "metric": metric, "value": value}
                    rows.append(who | at | {"n": 900, "d": 64, "low": value - 0.01, "high": value + 0.01, "null": 0.1})
    return make_table(rows, TABLE_COLUMNS)


def line_of(table: pd.DataFrame):
    (line,) = all_lines(table, make_table([], SERIES_COLUMNS))
    return line


def test_sinks_are_named_layer_by_layer_with_what_they_look_at():
    said = sinks(line_of(made()))
    assert said is not None
    assert said.startswith("7 of 12 heads are sinks")
    assert "layers 2 and 4 (all heads); layer 3 (head 1)" in said
    assert "head 0 of layer 2 has the most, 0.900." in said
    assert "the top share is 0.950 with it and 0.100 without (layer 0)" in str(first_token_effect(line_of(made())))


def test_no_sink_is_said_too():
    said = sinks(line_of(made(MEANT | {"sink_mass": MASS / 5})))
    assert (
        said == "No head is a sink: none puts more than 0.3 of its attention on the first position (head 0 of layer 2 has the most, 0.180)."
    )
    assert first_token_effect(line_of(made(MEANT | {"sink_mass": MASS / 5}))) is None


def test_where_attention_is_sharp_and_queries_align():
    line = line_of(made())
    assert "sharpest in layer 4" in str(sharpness(line))
    assert "most even in layer 1 (0.800)" in str(sharpness(line))
    assert "head 2 of layer 4 (0.0300)" in str(sharpness(line))
    said = str(alignment(line))
    assert f"above {one_pair(64, 1 - 0.025 / 12):.3f}" in said
    assert "in 2 of 12 heads, and in opposite directions in 1" in said
    assert {"Attention", "Sinks", "Queries and keys"} <= set(summarise(line, [line]))


def test_a_table_without_attention_says_nothing_of_it():
    line = line_of(made({}))
    assert sharpness(line) is sinks(line) is alignment(line) is None
    for name in ("attention_heads", "query_key_alignment"):
        assert figures[name].draw(made({}), make_table([], SERIES_COLUMNS)) is None


@pytest.mark.parametrize(
    ("name", "metrics"),
    [("attention_heads", ("attention_entropy_normalised", "sink_mass")), ("query_key_alignment", ("qk_cosine", "drift_sharpening"))],
)
def test_figures_draw_each_head_once_a_policy(name, metrics):
    spec = figures[name].draw(made(), make_table([], SERIES_COLUMNS)).to_dict()
    panels = spec["concat"]
    assert len(panels) == len(metrics)
    held = [row for rows in spec["datasets"].values() for row in rows if "head" in row]
    assert len(held) == 2 * len(metrics) * LAYERS * HEADS
    values = {metric: sorted(MEANT[metric].ravel()) for metric in metrics}
    assert sorted(row["value"] for row in held) == pytest.approx(sorted([v for column in values.values() for v in column] * 2))


def test_chance_is_drawn_for_all_heads_together():
    rows = made()
    rows = rows[rows["metric"].eq("qk_cosine") & rows["head"].notna()].assign(line="m")
    assert chance_levels(rows) == pytest.approx([-one_pair(64, 1 - 0.025 / 12), one_pair(64, 1 - 0.025 / 12)])


def test_attention_alone_has_its_sentences_and_no_row_of_layers():
    table = made()
    line = line_of(table[table["kind"] == "attention"].reset_index(drop=True))
    assert set(summarise(line, [line])) == {"Attention", "Sinks", "Queries and keys"}
    assert overview([line]) == ([], [])
    assert first_token_effect(line) is None
