"""How a model by name is fed: units of the jackknife, and the parts into which the body is split."""

import json
from types import SimpleNamespace

import pytest

import isoscope
from isoscope.measuring.model_feeder import ModelFeeder
from isoscope.measuring.options import Options
from isoscope.models.naming.model_name import resolve_model
from isoscope.sources import open_source
from tests.measuring.test_measure import equal


def test_fewer_than_thirty_documents_group_by_sequence(small_models, tmp_path):
    path = tmp_path / "few.txt"
    path.write_text("\n\n".join("the of and to a in that is was it " * (10 + i) for i in range(12)), "utf-8")
    table = isoscope.measure(str(small_models("bert")), str(path), tmp_path / "run", quiet=True).table("between_cosine", "all")
    assert json.loads(table["spec"].iloc[1])["unit"] == "sequence"
    assert table["low"].notna().all()


def test_text_on_a_cpu_comes_in_small_batches_of_a_large_window(small_models):
    """By default a batch has two sequences of full length, and 64 are sorted by length; with `--batch-size` a window is eight batches."""
    reference, source = resolve_model(str(small_models("bert"))), open_source("embedded")
    feeder, chosen = (ModelFeeder(reference, source, Options(seq_len=16, **options)) for options in ({}, {"batch_size": 3}))
    assert (feeder.batch_tokens, feeder.held_tokens) == (2 * 16, 64 * 16)
    assert (chosen.batch_tokens, chosen.held_tokens) == (3 * 16, 8 * 3 * 16)


def test_splits_are_parts_of_the_body(small_models, texts, tmp_path):
    """Every mark is a policy; the parts' points add up to the body's."""
    folder = str(small_models("gpt2"))
    results = isoscope.measure(folder, str(texts), tmp_path / "run", quiet=True, split_body=("frequency", "position"))
    table = results.table("mean_norm", "every").query("kind == 'hidden' and layer == 1").set_index("policy")
    for mark in ("frequency", "position"):
        parts = table[table.index.str.startswith(mark)]
        assert parts["n"].sum() == table.loc["body", "n"]
        assert float((parts["value"] * parts["n"]).sum() / parts["n"].sum()) == pytest.approx(table.loc["body", "value"], rel=1e-9)
    assert {"position-1", "position-2-3", "position-32-63"} <= set(table.index)
    plain = isoscope.measure(folder, str(texts), tmp_path / "plain", quiet=True).table(policy="every")
    split = results.table(policy="every")
    equal(plain, split[split["policy"].isin(["all", "no-special", "body"])])


def test_sinks_are_split_off_by_their_norm(small_models, texts, tmp_path):
    """One token whose embedding is enormous: its positions, and no others, are the sink slice of layer 0."""
    import shutil

    from safetensors.numpy import load_file, save_file

    folder = tmp_path / "sinky"
    shutil.copytree(small_models("gpt2"), folder)
    weights = load_file(folder / "model.safetensors")
    weights["transformer.wte.weight"] = weights["transformer.wte.weight"].copy()
    weights["transformer.wte.weight"][5] *= 60  # "the"
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    table = isoscope.measure(str(folder), str(texts), tmp_path / "run", quiet=True, split_body=("sink",), layers="0").table(
        "mean_norm", "every"
    )
    at = table.set_index("policy")
    expected = 0
    for item in open_source(str(texts)).items():
        words = item.content.split()
        for start in range(0, len(words), 64):
            expected += sum(word == "the" for word in words[start + 1 : start + 64])
    assert at.loc["sink", "n"] == expected
    assert at.loc["sink", "n"] + at.loc["body-no-sink", "n"] == at.loc["body", "n"]
    assert at.loc["sink", "value"] > 10 * at.loc["body-no-sink", "value"]


def test_a_cell_that_does_not_fit_on_the_disk_is_refused(small_models, texts, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(isoscope.IsoscopeError, match=r"The run will write [\d.]+ [KM]B and .* has 1 KB free"):
        isoscope.measure(str(small_models("bert")), str(texts), tmp_path / "run", quiet=True, max_items=3)
