"""Lines of different n never share a panel of a metric that depends on n; of any other metric they do."""

import pytest

from isoscope.core.number import POPULATION, THIS_N
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.figures import figures

ABOUT = {"between_cosine": POPULATION, "effective_rank": THIS_N, "top_share": THIS_N}


def table(n, policies=("all",)):
    rows = [
        {"model": model, "revision": "r", "modality": "text", "stack": "encoder", "kind": "hidden", "layer": layer, "policy": policy}
        | {"metric": metric, "value": 0.2 + 0.1 * layer, "low": 0.1, "high": 0.9, "n": count - 50 * i, "d": 8, "interval_about": about}
        for model, count in n.items()
        for layer in range(3)
        for i, policy in enumerate(policies)
        for metric, about in ABOUT.items()
    ]
    return make_table(rows, TABLE_COLUMNS)


def panels(name, rows):
    spec = figures[name].draw(rows, make_table([], SERIES_COLUMNS)).to_dict()
    return spec.get("concat", [spec])


def title_of(panel):
    title = panel.get("title", "")
    return (title["text"], title["subtitle"]) if isinstance(title, dict) else title


def lines_of(spec, panel, field="line"):
    """The lines whose points a panel holds, wherever in it they lie."""
    if isinstance(panel, list):
        return set().union(*(lines_of(spec, one, field) for one in panel)) if panel else set()
    if not isinstance(panel, dict):
        return set()
    data = panel.get("data") or {}
    own = data.get("values") or spec.get("datasets", {}).get(data.get("name"), [])
    found = {row[field] for row in own if field in row and row.get("policy")}
    return found.union(*(lines_of(spec, value, field) for key, value in panel.items() if key not in ("data", "datasets")))


def drawn(name, rows, field="line"):
    """(title, the lines) of each panel."""
    spec = figures[name].draw(rows, make_table([], SERIES_COLUMNS)).to_dict()
    return [(title_of(panel), lines_of(spec, panel, field)) for panel in spec.get("concat", [spec])]


def at(n):
    return f"n = {n}; compare only at equal n"


def test_lines_of_different_n_have_panels_of_their_own():
    found = drawn("layer_profile", table({"small": 1000, "large": 4000, "huge": 4010}))
    assert found[0] == ("between_cosine", {"small", "large", "huge"})
    for first, second, name in ((found[1], found[2], "top_share"), (found[3], found[4], "effective_rank")):
        assert first == ((name, at("1,000")), {"small"})
        assert second == ((name, at("4,010")), {"large", "huge"})
    assert len(found) == 5


def test_n_is_compared_under_every_policy():
    """The same n with all tokens, and different n without some: no policy may put them into one panel."""
    rows = table({"a": 4000, "b": 4000}, policies=("all", "body"))
    rows.loc[rows["model"].eq("b") & rows["policy"].eq("body"), "n"] = 2000
    assert [lines for _, lines in drawn("layer_profile", rows)] == [{"a", "b"}, {"a"}, {"b"}, {"a"}, {"b"}]


def test_by_depth_too():
    found = drawn("shape_of_anisotropy", table({"small": 1000, "large": 4000}), "curve")
    assert [lines for _, lines in found] == [{"small · encoder"}, {"large · encoder"}]


@pytest.mark.parametrize("n", [{"a": 1000, "b": 1005}, {"a": 1000}])
def test_lines_of_equal_n_share_a_panel(n):
    found = drawn("layer_profile", table(n))
    assert found == [(name, set(n)) for name in ("between_cosine", "top_share", "effective_rank")]


def test_policies_of_one_model_too():
    rows = table({"a": 1000}, policies=("all", "body"))
    assert all(isinstance(title, str) for title, _ in drawn("layer_profile", rows))
    found = drawn("policy_difference", rows, "policy")
    assert found[0] == (["a", "between_cosine"], {"all", "body"})
    assert found[1:3] == [((["a", "top_share"], at("1,000")), {"all"}), ((["a", "top_share"], at("950")), {"body"})]


def cosines(n, names=("mean_cosine", "between_cosine", "drift_ratio")):
    about = {"mean_cosine": THIS_N, "between_cosine": POPULATION, "drift_ratio": POPULATION}
    rows = [
        {"model": model, "revision": "r", "modality": "text", "stack": "encoder", "kind": "hidden", "layer": layer, "policy": "all"}
        | {"metric": metric, "value": 0.2 + 0.1 * i, "n": count, "d": 8, "interval_about": about[metric]}
        for model, count in n.items()
        for layer in range(3)
        for i, metric in enumerate(names)
    ]
    return make_table(rows, TABLE_COLUMNS)


@pytest.mark.parametrize(("name", "field"), [("token_models", "curve"), ("isotropic_level", "curve"), ("drift_and_cosine", "line")])
def test_cosines_of_models_of_different_n_are_those_between_documents(name, field):
    """The published cosine is over all pairs; of different n the one that does not depend on n is drawn, all models in one panel."""
    unequal, equal = cosines({"a": 1000, "b": 4000}), cosines({"a": 4000, "b": 4000})
    for rows, value, said in ((unequal, 0.3, "mean cosine between documents"), (equal, 0.2, "mean cosine")):
        spec = figures[name].draw(rows, make_table([], SERIES_COLUMNS)).to_dict()
        assert {frozenset(lines) for _, lines in drawn(name, rows, field)} == {frozenset("ab")}
        assert f"'title': '{said}'" in str(spec)
        points = [row for rows in spec["datasets"].values() for row in rows if row.get("policy")]
        assert {round(row.get("cosine", row.get("value")), 9) for row in points} == {value}


@pytest.mark.parametrize(("name", "field"), [("token_models", "curve"), ("isotropic_level", "curve"), ("drift_and_cosine", "line")])
def test_without_that_cosine_they_have_panels_of_their_own(name, field):
    found = drawn(name, cosines({"a": 1000, "b": 4000}, ("mean_cosine", "drift_ratio")), field)
    assert all(len(lines) == 1 for _, lines in found)
    assert {title[1] for title, _ in found} == {at("1,000"), at("4,000")}


def test_heads_of_models_of_different_n():
    rows = [
        {"model": model, "revision": "r", "stack": "encoder", "kind": "attention", "layer": 1, "head": head, "policy": "all"}
        | {"metric": "qk_cosine", "value": 0.1 * head, "n": count, "d": 8, "interval_about": THIS_N}
        for model, count in (("a", 1000), ("b", 4000))
        for head in range(4)
    ]
    assert [lines for _, lines in drawn("query_key_alignment", make_table(rows, TABLE_COLUMNS))] == [{"a"}, {"b"}]


@pytest.mark.parametrize(
    ("name", "kind", "metric"), [("training_map", "hidden", "top_share"), ("training_cosine", "attention", "qk_cosine")]
)
def test_steps_of_different_n(name, kind, metric):
    rows = [
        {"model": "m", "revision": f"s{step}", "step": step, "stack": "encoder", "kind": kind, "layer": 1, "policy": "all"}
        | {"head": 0 if kind == "attention" else None, "metric": metric, "value": 0.1 * step, "n": 1000 if step < 4 else 2000, "d": 8}
        | {"interval_about": THIS_N}
        for step in (0, 2, 4, 6)
    ]
    found = drawn(name, make_table(rows, TABLE_COLUMNS), "step")
    assert [steps for _, steps in found] == [{0, 2}, {4, 6}]


def test_a_tooltip_says_what_the_interval_is_about():
    first, second, _ = (str(panel) for panel in panels("layer_profile", table({"a": 1000})))
    assert "at this n" not in first
    assert "+ ' at this n'" in second
