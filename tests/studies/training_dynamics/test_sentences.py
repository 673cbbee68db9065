"""The section of a training: its sentences say what the rows say, and thirty checkpoints do not clutter the page."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from isoscope.core.errors import Failures
from isoscope.core.model_groups import select_one_checkpoint
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.metrics import registry
from isoscope.report.line import all_lines
from isoscope.report.page import render_page
from isoscope.report.summary import summarise
from isoscope.studies.training_dynamics.sentences import (
    EMBEDDED,
    describe_checkpoints,
    rows_on_page,
    summarise_training,
    training_sections,
)
from tests.figures.made_suite import OPPOSITE, SAME, SUITES, made_suite
from tests.report.test_page import Reader, charts_of, table_of, unpacked

Tables = tuple[pd.DataFrame, pd.DataFrame]
SEEDS = {0: (*range(17), 20, 24, 28, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 128), 1: (0, 8, 128), 2: (0, 128)}
DRAWN = set().union(*EMBEDDED.values())
UNDRAWN = [name for name in registry.names() if name not in DRAWN | {"mean_norm"}][:6]
SUITE, HOSTILE = SUITES[0], "</h2><script>alert(1)</script>"


@pytest.fixture(scope="module")
def both() -> Tables:
    """Two suites with 32 checkpoints of the first seed, and six metrics more; the second has a name that no page should trust."""
    table, series = (frame.replace({"model": {SUITES[1]: HOSTILE}}) for frame in made_suite(SUITES, SEEDS))
    norms = table[table["metric"].eq("mean_norm")]
    more = [norms.assign(metric=name, value=norms["value"] * (1 + i / 99)) for i, name in enumerate(UNDRAWN)]
    return pd.concat([table, *more], ignore_index=True), series


@pytest.fixture(scope="module")
def text(both) -> str:
    return render_page(*both, [])


@pytest.fixture(scope="module")
def reader(text) -> Reader:
    return Reader(text)


def derived(**rows: list[dict[str, object]]) -> pd.DataFrame:
    """Rows of a suite as a whole: by metric, each with its verdict and note as part of `spec`."""
    made = []
    for metric, each in rows.items():
        for row in each:
            said = {name: row.pop(name) for name in ("verdict", "note") if name in row}
            made.append(
                {"model": "m", "stack": "encoder", "kind": "attention", "policy": "all", "metric": metric, "spec": json.dumps(said)} | row
            )
    return make_table(made, TABLE_COLUMNS)


def test_checkpoints_are_counted_and_the_shown_one_is_named(both):
    rows = both[0][both[0]["model"].eq(SUITE)]
    assert describe_checkpoints(rows) == (
        "37 checkpoints of 3 seeds (0–2), steps 0 to 128.",
        "step 128 of seed 0 and, as untrained:org/toy-encoder, step 0",
    )
    alone = rows.assign(seed=pd.array([pd.NA] * len(rows), dtype="Int64"))
    assert describe_checkpoints(alone[alone["step"].ne(0).fillna(False)]) == ("31 checkpoints, steps 1 to 128.", "step 128")


def test_changes_are_said_with_their_sign_and_place():
    values = {0: (0.01, "undecided"), 1: (0.4, "up"), 2: (0.5, "up"), 3: (-0.2, "down")}
    each = [{"layer": layer, "value": x, "low": x - 0.1, "high": x + 0.1, "verdict": word} for layer, (x, word) in values.items()]
    rows = derived(between_cosine_change=[*each, {"value": 0.2, "low": 0.1, "high": 0.3, "verdict": "up"}])
    assert summarise_training(rows)["Anisotropy"] == (
        "From the first step to the last the mean cosine of pairs from different items clearly rises in layers 1–2 and falls in layer 3 "
        "(of 4), most in layer 2: +0.500 (95 % interval 0.400 to 0.600); on average over layers +0.200 (95 % interval 0.100 to 0.300)."
    )
    fallen = derived(attention_entropy_change=[{"layer": 1, "value": -0.3, "low": -0.4, "high": -0.2, "verdict": "down"}])
    assert "falls in layer 1 (of 1), most in layer 1: -0.300 (95 % interval -0.400 to -0.200)." in summarise_training(fallen)["Sharpness"]
    nothing = derived(top_share_change=[{"layer": 1, "value": 0.0, "verdict": "undecided"}])
    assert "clearly changes in no layer (of 1)" in summarise_training(nothing)["Dominant direction"]


def test_alignment_and_dimension_are_said_by_verdict():
    words = {1: "holds", 2: "holds", 3: "fails", 4: "undecided"}
    rows = derived(
        alignment_change=[{"layer": layer, "value": 0.1, "verdict": word} for layer, word in words.items()],
        alignment_p=[{"value": 0.5, "step": 0}, {"value": 0.001, "step": 64}],
        rise_then_fall=[
            {"kind": "hidden", "value": 1.0, "verdict": "holds", "note": "in 5 of 5 seeds both lower bounds exceed 10 % of the peak"},
            *({"kind": "hidden", "layer": layer, "value": 0.0, "verdict": word} for layer, word in words.items()),
        ],
        precedence=[{"value": 0.8, "low": 0.6, "high": 0.9, "verdict": "drift first", "note": "part of heads whose keys drift first"}],
    )
    found = summarise_training(rows)
    assert (
        "holds in layers 1–2, fails in layer 3, is undecided in layer 4. All layers at once at the last step: p = 0.0010."
        in found["Beyond chance"]
    )
    assert found["Intrinsic dimension"].startswith(
        "Does it rise and then fall? On average over blocks: holds (in 5 of 5 seeds both lower bounds exceed 10 % of the peak); "
        "by layer this holds in layers 1–2, fails in layer 3, is undecided in layer 4."
    )
    assert found["Which comes first"] == "Drift first: 0.800 (95 % interval 0.600 to 0.900), part of heads whose keys drift first."


def test_heads_by_direction():
    rows = derived(
        same_direction_heads=[{"layer": 1, "value": 0.75}, {"layer": 2, "value": 0.0}],
        opposite_direction_heads=[{"layer": 1, "value": 0.0}, {"layer": 2, "value": 0.0}],
        qk_chance=[{"value": 0.43}],
    )
    assert summarise_training(rows)["Queries and keys"] == (
        "At the last step heads have mean queries and mean keys beyond chance (|cosine| above 0.430, Bonferroni over heads) in the same "
        "direction in layer 1, most in layer 1 (75 % of heads); in opposite directions in no layer."
    )


def test_the_heads_shown_are_named_and_a_missing_one_is_said_to_be():
    rows = derived(opposite_direction=[{"layer": 2, "head": 5, "value": -0.5, "note": "the smallest"}])
    assert summarise_training(rows)["Heads shown"] == (
        "Figures of single heads show in the same direction none, because no head ends that way; in opposite directions head 5 of layer 2, "
        "cosine -0.500 (the smallest)."
    )


def test_stacks_are_told_apart():
    rows = derived(alignment_change=[{"layer": 1, "value": 0.1, "stack": stack, "verdict": "holds"} for stack in ("encoder", "decoder")])
    assert list(summarise_training(rows)) == ["Beyond chance, encoder", "Beyond chance, decoder"]


def test_no_suite_no_section():
    assert training_sections(make_table([], TABLE_COLUMNS), make_table([], SERIES_COLUMNS), Failures()) == []


ORDER = ["motion", "clouds", "paths", "cosine", "dot", "entropy", "alignment", "onsets", "map", "geometry", "dimension"]
ORDER += ["clouds_keys", "clouds_queries", "paths_keys", "paths_queries", "components", "seeds"]


def test_each_suite_has_a_section_with_every_figure_in_reading_order(reader):
    ids = [attributes["id"] for tag, attributes in reader.tags if tag == "section" and "id" in attributes]
    for number in (1, 2):
        assert [name for name in ids if name.startswith(f"training-{number}-")] == [f"training-{number}-training_{name}" for name in ORDER]
    assert ids.count("training-1") == ids.count("training-2") == 1
    numbers = [int(attributes["data-chart"]) for _, attributes in reader.tags if "data-chart" in attributes]
    assert sorted(numbers) == list(range(len(charts_of(reader))))
    assert reader.text.count("Figure 13: do mean query") == 2


def test_the_rest_of_the_page_shows_one_checkpoint_beside_step_0(both, reader):
    names = [line.name for line in all_lines(*select_one_checkpoint(*both))]
    assert names == [SUITE, HOSTILE, f"untrained:{SUITE}", f"untrained:{HOSTILE}"]
    assert "Wherever the page shows a single checkpoint, it is step 128 of seed 0 and, as untrained:org/toy-encoder, step 0;" in reader.text
    lines = all_lines(*select_one_checkpoint(*both))
    assert "in layer 3: 0.620 trained, 0.0200 untrained" in summarise(lines[0], lines)["Training"]
    profile = next(chart for chart in charts_of(reader) if chart.get("title") == "between_cosine")
    shown = pd.DataFrame(next(iter(profile["datasets"].values())))
    assert set(shown["line"]) == set(names)


def test_all_checkpoints_are_saved_but_only_what_is_drawn_of_those_between(both, reader):
    table, series = rows_on_page(*both)
    csv = table_of(unpacked(reader, "table")).astype(TABLE_COLUMNS)
    assert len(csv) == len(table) < len(both[0])
    assert set(csv.loc[csv["model"].eq(SUITE) & csv["step"].notna(), "step"]) == set(SEEDS[0])
    between = csv[csv["step"].eq(8) & csv["revision"].notna()]
    ends = csv[csv["step"].eq(128) & csv["seed"].eq(0) & csv["revision"].notna()]
    assert "mean_norm" in set(ends["metric"])
    assert "mean_norm" not in set(between["metric"])
    assert {"qk_cosine", "mean_cosine", "two_nn"} <= set(between["metric"])
    whole = both[0][both[0]["metric"].isin(["alignment", "rise_then_fall", "same_direction"])]
    assert len(table[table["metric"].isin(["alignment", "rise_then_fall", "same_direction"])]) == len(whole)
    assert set(series.dropna(subset="head")[["layer", "head"]].itertuples(index=False, name=None)) == {SAME, OPPOSITE}
    assert set(series["seed"]) == {0}
    assert set(series["name"]) == set(both[1]["name"])
    assert f"The run has {len(both[0]) - len(table) + len(both[1]) - len(series):,} more rows and points" in reader.text


def test_names_of_suites_cannot_break_out(text, reader):
    assert HOSTILE not in text
    assert f"Training: {HOSTILE}" in reader.text


def test_thirty_two_checkpoints_of_two_suites_stay_small(text, both):
    assert both[0]["step"].nunique() == 32
    assert len(text) < 3_000_000
