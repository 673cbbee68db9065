"""Which source a model reads where several are given: the one named for it, or the first of its modality."""

import pytest

import isoscope
from isoscope.measuring.named_sources import Sources
from isoscope.measuring.options import Options
from isoscope.models.naming.model_name import resolve_model
from tests.models.zoo import ZOO, build, clips, images

BY_TITLE = {small.title: small for small in ZOO}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("several")
    for title, name in (("BERT", "reader"), ("HuBERT", "listener"), ("ViT", "viewer")):
        build(BY_TITLE[title], root / name)
    for folder, fill in (("clips", clips), ("images", images)):
        (root / folder).mkdir()
        fill(root / folder)
    (root / "a.txt").write_text("one\n\ntwo two\n", "utf-8")
    (root / "b.txt").write_text("three\n\nfour\n", "utf-8")
    return root


def given(made, *specs, models=("reader", "listener", "viewer")):
    found = Sources([spec.format(made=made) for spec in specs], None, list(models))
    return lambda name: found.for_model(resolve_model(name.replace("@", f"{made}/")), Options()).name


def test_each_model_reads_the_first_of_its_modality(made):
    source = given(made, "embedded", "{made}/clips", "{made}/images", "{made}/a.txt", "{made}/b.txt")
    assert "a.txt" in source("@reader")
    assert "clips" in source("@listener")
    assert "images" in source("@viewer")


def test_what_comes_with_isoscope_serves_every_modality(made):
    found = Sources(["embedded"], None, [])
    modalities = {name: found.for_model(resolve_model(str(made / name)), Options()).modality for name in ("reader", "listener", "viewer")}
    assert modalities == {"reader": "text", "listener": "speech", "viewer": "images"}


def test_a_source_named_for_a_model_is_its_own_and_its_untrained_twins(made):
    source = given(made, "{made}/a.txt", "reader={made}/b.txt", models=("reader",))
    assert "b.txt" in source("@reader")
    assert "b.txt" in source("untrained:@reader")


def test_a_model_without_a_source_of_its_modality_is_told(made):
    source = given(made, "{made}/a.txt")
    with pytest.raises(isoscope.IsoscopeError, match=r"listener reads speech, and .*a.txt holds none"):
        source("@listener")


def test_models_of_three_modalities_in_one_run(made, tmp_path):
    names = [str(made / name) for name in ("reader", "listener", "viewer")]
    sources = [str(made / "a.txt"), str(made / "clips"), str(made / "images")]
    table = isoscope.measure(names, sources, tmp_path / "run", quiet=True, sample=0).table()
    assert dict(table.groupby("model")["modality"].first()) == {"listener": "speech", "reader": "characters", "viewer": "images"}
