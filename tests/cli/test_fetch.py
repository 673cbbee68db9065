"""`isoscope fetch`, and `package:NAME` as the name of a model and of data."""

import json

import pytest

from isoscope.models.naming.model_name import resolve_model
from isoscope.sources import open_source
from tests.cli.calling import isoscope
from tests.packages.registry import serve  # noqa: F401


def test_what_is_fetched_is_named_with_its_path_and_what_to_do_next(serve):  # noqa: F811
    cache = serve({"tiny/config.json": "{}"})
    answer = isoscope("fetch", "tiny").worked()
    assert answer.out == f"package:tiny  {cache / 'models' / 'Tiny'}\n"
    assert "isoscope measure package:tiny --out RUN" in answer.err
    assert json.loads(isoscope("fetch", "tiny", "--json").out) == [{"name": "package:tiny", "path": f"{cache / 'models' / 'Tiny'}"}]


def test_the_list_says_what_is_there(serve):  # noqa: F811
    serve({"tiny/config.json": "{}"})
    before = {row["name"]: row for row in json.loads(isoscope("fetch", "--list", "--json").worked().out)}
    assert before["tiny"]["here"] == ""
    assert before["gte-small"]["download"] == "161 MB"
    isoscope("fetch", "tiny").worked()
    assert next(row for row in json.loads(isoscope("fetch", "--list", "--json").out) if row["name"] == "tiny")["here"] == "yes"
    assert all(len(line) <= 80 for line in isoscope("fetch", "--list").worked().out.splitlines())


def test_unknown_names_are_refused_before_anything_is_fetched(serve):  # noqa: F811
    cache = serve({"tiny/config.json": "{}"})
    isoscope("fetch", "tiny", "dinov2-smal").refused("did you mean dinov2-small?")
    assert not (cache / "models").exists()
    isoscope("fetch").refused("takes names, --all or --list")


def test_a_package_is_a_model_and_a_source_by_name(serve, small_models):  # noqa: F811
    """A model of a package is fetched on the way, and has the same hash as its folder."""
    folder = small_models("bert")
    cache = serve({"tiny/text.jsonl": '{"text": "one"}\n{"text": "two"}\n'}, data="")
    assert [item.content for item in open_source("package:tiny").items()] == ["one", "two"]
    (cache / "models").mkdir()
    (cache / "models" / "all-MiniLM-L6-v2").symlink_to(folder)
    assert resolve_model("package:all-minilm-l6-v2").weights == resolve_model(str(folder)).weights
    assert resolve_model("untrained:package:all-minilm-l6-v2").untrained


def test_an_unknown_package_is_refused_as_a_model():
    answer = isoscope("measure", "package:all-minilm", "--out", "nowhere")
    answer.refused("did you mean all-minilm-l6-v2?")


@pytest.mark.parametrize("verb", ["fetch"])
def test_help_has_examples(verb):
    assert "isoscope fetch --list" in isoscope(verb, "--help").out
