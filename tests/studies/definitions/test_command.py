"""isoscope compare-definitions: tables that fit, the same numbers as the other commands, one sentence for a mistake."""

import json

import numpy as np

from isoscope.studies.definitions.command import MOST_COLUMNS, _split_columns
from isoscope.studies.definitions.conventions import CONVENTIONS, QUESTIONS
from tests.cli.calling import isoscope


def test_conventions_of_a_run(good_run):
    shown = isoscope("compare-definitions", good_run).worked().out
    assert max(map(len, shown.splitlines())) <= 110
    for word in ("small-bert · encoder", "ethayarajh", "razzhigaev", "Left open:"):
        assert word in shown
    rows = json.loads(isoscope("compare-definitions", good_run, "--convention", "godey2024", "--json").worked().out)
    assert {row["metric"] for row in rows} == {"mean_cosine@godey2024", "drift@godey2024"}
    table = isoscope("table", good_run, "--convention", "godey2024", "--json").worked().out
    assert [row["value"] for row in json.loads(table)] == [row["value"] for row in rows]


def test_conventions_of_a_matrix(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((400, 8)) + 1)
    shown = isoscope("compare-definitions", tmp_path / "x.npy").worked().out
    assert all(name in shown for name in CONVENTIONS)
    assert "400 points in 8 dimensions" in shown
    own = json.loads(isoscope("embeddings", tmp_path / "x.npy", "--convention", "rankme", "--json").worked().out)
    every = json.loads(isoscope("compare-definitions", tmp_path / "x.npy", "--json").worked().out)
    assert own["rankme@rankme"]["value"] == next(row["value"] for row in every if row["convention"] == "rankme")


def test_mistakes_of_conventions_are_one_sentence(good_run, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    isoscope("compare-definitions", good_run, "--convention", "godey").refused("did you mean godey2024?")
    isoscope("table", good_run, "--convention", "rankme", "--policy", "all").refused("leave out --metric, --policy and --series")
    isoscope("embeddings", tmp_path / "x.npy", "--convention", "rankme", "--metric", "rankme").refused("leave out --metric")
    isoscope("compare-definitions", tmp_path / "nothing").refused("There is no run at")


def test_answers_to_one_question_stay_in_one_table():
    """Tables are as wide as fits, a question is never split over two of them, and no metric is shown that the run lacks."""
    every = [f"{reading.metric or reading.question}@{name}" for name, source in CONVENTIONS.items() for reading in source.readings]
    tables = list(_split_columns(set(every)))
    assert sorted(metric for columns in tables for _, _, metric in columns) == sorted(every)
    assert [question for question in QUESTIONS for columns in tables if question in {asked for asked, _, _ in columns}] == [*QUESTIONS]
    widths = [len(columns) for columns in tables]
    firsts = [sum(asked == columns[0][0] for asked, _, _ in columns) for columns in tables]
    assert max(widths) <= MOST_COLUMNS
    assert all(width + first > MOST_COLUMNS for width, first in zip(widths, firsts[1:], strict=False))
    assert list(_split_columns({"rankme@rankme"})) == [[("rank", "rankme", "rankme@rankme")]]


def test_only_the_named_sources_are_shown_and_explained(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((400, 8)) + 1)
    shown = isoscope("compare-definitions", tmp_path / "x.npy", "--convention", "rankme", "--convention", "godey2024").worked().out
    assert [name for name in CONVENTIONS if f"\n{name}: Left open: {CONVENTIONS[name].leaves_open[:20]}" in shown] == [
        "godey2024",
        "rankme",
    ]
    answers = json.loads(isoscope("compare-definitions", tmp_path / "x.npy", "--convention", "godey2024", "--json").worked().out)
    x = np.load(tmp_path / "x.npy")
    drift = next(row["value"] for row in answers if row["question"] == "drift")
    np.testing.assert_allclose(drift, np.linalg.norm(x.mean(0)), rtol=1e-6)
