"""A task names its cell: the source that a model reads if several are given, and everything that determines the statistics."""

import dataclasses
import pickle

import pytest

import isoscope
from isoscope.measuring.options import Options
from isoscope.measuring.task import Sources, Task, cell_identity
from isoscope.models.naming.model_name import resolve_model
from isoscope.runs.merging import merge_identities
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import key_of
from isoscope.sources import open_source
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
    found = Sources(tuple(spec.format(made=made) for spec in specs), None, models)
    return lambda name: found.for_model(resolve_model(name.replace("@", f"{made}/")), Options()).name


def test_each_model_reads_the_first_of_its_modality(made):
    source = given(made, "embedded", "{made}/clips", "{made}/images", "{made}/a.txt", "{made}/b.txt")
    assert "a.txt" in source("@reader")
    assert "clips" in source("@listener")
    assert "images" in source("@viewer")


def test_what_comes_with_isoscope_serves_every_modality(made):
    found = Sources(("embedded",), None, ())
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


def test_what_determines_a_cell_and_nothing_else(small_models, texts):
    reference, source = resolve_model(str(small_models("bert"))), open_source(str(texts))

    def key(**options):
        return key_of(cell_identity(reference, source, Options(**options)))

    assert key() == key(batch_size=2, threads=1, device="cpu", store="rows", save_every=1.0)
    changed = [{"seq_len": 32}, {"dtype": "bfloat16"}, {"layers": "0"}, {"seed": 1}, {"shard": (0, 2)}, {"max_tokens": 9}, {"sample": 7}]
    keys = [key(), *(key(**options) for options in changed), key(split_body=("sink",)), key(cosine_sd=True), key(second_moments="all")]
    assert len(set(keys)) == len(keys)


def test_sources_are_equal_by_name_and_a_copy_opens_nothing(made):
    sources = Sources((f"{made}/a.txt",), None, ())
    sources.of_modality("reader", "text")
    copied = pickle.loads(pickle.dumps(sources))
    assert copied == sources == Sources((f"{made}/a.txt",), None, ())
    assert hash(copied) == hash(sources)
    assert copied != Sources((f"{made}/b.txt",), None, ())
    assert len(sources._opened) == 1
    assert not copied._opened


def test_half_a_batch_and_a_shard_keep_what_determines_the_cell(made, tmp_path):
    task = Task.create(Run(tmp_path), resolve_model(str(made / "reader")), Sources((f"{made}/a.txt",), None, ()), Options(batch_size=3))
    assert task.with_half_batch.options.batch_size == 1
    assert task.with_half_batch.with_half_batch is None
    unset = Task.create(Run(tmp_path), resolve_model(str(made / "reader")), Sources((f"{made}/a.txt",), None, ()), Options())
    assert unset.with_half_batch.options.batch_size == 1  # half of the least that the default can be
    assert task.with_half_batch.key == task.key
    shard = task.create_shard(Run(tmp_path / "parts"), 1, 2)
    assert shard.part
    assert shard.options.store == "all"
    assert {name for name in task.identity if shard.identity[name] != task.identity[name]} == {"shard", "source"}
    other = task.create_shard(Run(tmp_path / "parts"), 0, 2)
    assert merge_identities([other.identity, shard.identity]) == task.identity
    limited = dataclasses.replace(task, options=dataclasses.replace(task.options, max_items=1)).create_shard(Run(tmp_path / "parts"), 1, 2)
    assert limited.identity["source"] == task.identity["source"], "its bytes are those of the beginning, not of its range"
    assert "block_hashes" not in limited.identity
