"""A model that cannot be measured is refused in one sentence that names it."""

import json
import os
import pickle

import numpy as np
import pytest

from tests.cli.calling import isoscope

QUERY = "bert.encoder.layer.0.attention.self.query.weight"


def test_a_path_that_does_not_exist(quick):
    quick("./nowhere").refused("There is no folder ./nowhere")
    quick("nowhere.gguf").refused("There is no file nowhere.gguf")
    quick("a/b/c").refused("There is no folder a/b/c")


def test_a_file_is_not_a_model(quick, paragraphs):
    quick(paragraphs).refused(f"{paragraphs} is a file", "a folder with config.json and weights, a .gguf file or a hub id")


def test_an_empty_name(quick):
    quick("").refused("its name is empty")
    quick("untrained:").refused("its name is empty")


def test_a_name_that_is_neither_a_folder_nor_a_hub_id(quick):
    quick("no such thing").refused("There is no folder no such thing", "not a hub id (org/name or org/name@revision)")


def test_a_misspelt_last_model_costs_nothing(quick, bert, tmp_path):
    quick(bert, "./nowhere").refused("There is no folder ./nowhere")
    assert not (tmp_path / "run").exists()


def test_a_folder_without_weights(quick, model_copy):
    folder = model_copy()
    (folder / "model.safetensors").unlink()
    quick(folder).refused(f"{folder} holds no weights (.safetensors or .bin)", f"untrained:{folder}")


def test_a_folder_without_a_configuration(quick, model_copy):
    folder = model_copy()
    (folder / "config.json").unlink()
    quick(folder).refused(f"{folder} has no config.json")


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_folder_without_a_tokenizer(quick, model_copy, request, name):
    folder = model_copy(source=request.getfixturevalue(name))
    for path in folder.glob("tokenizer*"):
        path.unlink()
    quick(folder).refused(f"{folder} has no tokenizer that fits its model: copy tokenizer.json")


def missing(weights):
    del weights[QUERY]


def extra(weights):
    weights["bert.encoder.layer.9.output.dense.weight"] = weights["bert.encoder.layer.0.output.dense.weight"].copy()


def misfit(weights):
    weights[QUERY] = weights[QUERY][:16]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (missing, f"1 missing and initialised at random ({QUERY})"),
        (extra, "1 that the architecture does not have (bert.encoder.layer.9.output.dense.weight)"),
        (misfit, f"1 of another shape and initialised at random ({QUERY}: (16, 32), not (32, 32))"),
    ],
)
def test_weights_that_do_not_fit_are_named(quick, model_copy, spoil, said):
    folder = model_copy(weights=spoil)
    quick(folder).refused(f"The weights of {folder} do not fit its architecture: {said}. To continue, use --allow-partial.")
    gone_on = quick(folder, "--allow-partial").worked()
    assert gone_on.err.startswith("isoscope: note: ")
    assert said in gone_on.err


def test_weights_that_are_drawn_at_random_are_drawn_the_same_again(model_copy, paragraphs, tmp_path):
    folder = model_copy(weights=missing)
    values = []
    for out in (tmp_path / "one", tmp_path / "two"):
        words = ("--data", paragraphs, "--out", out, "--layers", "1", "-q", "--threads", "1", "--allow-partial")
        isoscope("measure", folder, *words).worked()
        found = isoscope("table", out, "--metric", "mean_cosine", "--policy", "all", "--json").worked()
        values.append([row["value"] for row in json.loads(found.out)])
    assert values[0] == values[1]
    assert len(values[0]) == 1


class Marker:
    """Leaves a file behind when it is unpickled by anything that runs what a pickle says."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("kind", ["pickle", "torch"])
def test_a_pickle_that_would_run_code_does_not(quick, model_copy, tmp_path, kind):
    import torch

    folder, mark = model_copy(), tmp_path / "ran"
    (folder / "model.safetensors").unlink()
    if kind == "torch":
        torch.save({"weight": Marker(mark)}, folder / "pytorch_model.bin")
    else:
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"weight": Marker(mark)}))
    quick(folder).refused(f"{folder} holds a pickle that is more than weights; it was not opened")
    assert not mark.exists()


def test_a_pickle_of_weights_only_is_read(quick, model_copy, bert):
    import torch
    from safetensors.torch import load_file

    folder = model_copy()
    (folder / "model.safetensors").unlink()
    torch.save(load_file(bert / "model.safetensors"), folder / "pytorch_model.bin")
    quick(folder).worked()


def test_code_that_a_model_brings_runs_only_when_asked_for(quick, model_copy, tmp_path, monkeypatch):
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    folder, mark = model_copy("brings_code"), tmp_path / "ran"
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "configuration_own.OwnConfig", "AutoModel": "modeling_own.OwnModel"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "configuration_own.py").write_text(
        f"import os\nfrom transformers import BertConfig\nos.makedirs({str(mark)!r}, exist_ok=True)\n"
        "class OwnConfig(BertConfig):\n    pass\n"
    )
    (folder / "modeling_own.py").write_text(
        "from transformers import BertModel\nfrom .configuration_own import OwnConfig\n"
        "class OwnModel(BertModel):\n    config_class = OwnConfig\n"
    )
    quick(folder).refused(f"{folder} brings its own code; read it, and if you trust it, use --trust-remote-code brings_code.")
    quick(folder, "--trust-remote-code", "another").refused(f"{folder} brings its own code")
    assert not mark.exists()
    said = quick(folder, "--trust-remote-code", "brings_code").worked().err
    assert "brings_code brings its own code, and it is run" in said
    assert mark.exists()


@pytest.mark.parametrize("damage", [lambda whole: whole[: len(whole) // 2], lambda whole: b"rubbish" * 100, lambda whole: b""])
def test_damaged_safetensors(quick, model_copy, damage):
    folder = model_copy()
    file = folder / "model.safetensors"
    file.write_bytes(damage(file.read_bytes()))
    quick(folder).refused(f"The weights of {folder} are damaged", "download its .safetensors again")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (b"{not json", "config.json cannot be read: "),
        (b"\xff\xfe", "config.json cannot be read: "),
        (b"[]", "Should have a `model_type` key"),
        (b"{}", "Should have a `model_type` key"),
        (b'{"model_type": "nosuch"}', "model type `nosuch`"),
        (b'{"model_type": "bert", "hidden_size": "big"}', "Field 'hidden_size' expected int, got str (value: 'big')"),
        (b'{"model_type": "bert", "hidden_size": 33, "num_attention_heads": 4}', "(33) is not a multiple of the number of attention heads"),
        (b'{"model_type": "clap"}', "isoscope does not know how to feed models of type 'clap'"),
    ],
)
def test_a_damaged_configuration(quick, model_copy, config, said):
    folder = model_copy()
    (folder / "config.json").write_bytes(config)
    quick(folder).refused(said)


def test_a_damaged_tokenizer(quick, model_copy):
    folder = model_copy()
    (folder / "tokenizer.json").write_text("{nope")
    quick(folder).refused(f"{folder / 'tokenizer.json'} cannot be read: ")


@pytest.mark.parametrize("content", [b"rubbish", b"", b"GGUF" + bytes(100), b"GGUF\x03\0\0\0" + b"\xff" * 64])
def test_a_gguf_that_is_rubbish(quick, tmp_path, content):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    quick(path).refused(f"{path} cannot be read as a GGUF file: ")


def test_a_sequence_longer_than_the_model_takes(quick, bert):
    quick(bert, "--seq-len", "65").refused("small-bert takes at most 64 tokens per sequence; --seq-len was 65")


def test_a_sequence_without_room_for_a_word(quick, bert):
    quick(bert, "--seq-len", "2").refused("A sequence of 2 tokens leaves no room next to 2 special ones; raise --seq-len")


def test_layers_that_choose_nothing(paragraphs, bert, tmp_path):
    words = ("--data", paragraphs, "--out", tmp_path / "run", "-q")
    isoscope("measure", bert, *words, "--layers", "99").refused("--layers must name layers that small-bert has (0 to 2, input); got 99")


def test_nan_names_its_site_and_count_and_what_was_finished_stays(model_copy, gpt2, bert, paragraphs, tmp_path):
    def spoil(weights):
        weights["bert.encoder.layer.1.output.dense.weight"][0, 0] = np.nan

    folder, out = model_copy(weights=spoil), tmp_path / "run"
    words = ("--data", paragraphs, "--out", out, "-q", "--threads", "1", "--batch-size", "8", "--layers", "0,2")
    answer = isoscope("measure", gpt2, folder, bert, *words)
    assert (answer.code, answer.out, answer.err.count("\n")) == (1, "", 1)
    assert "2 of 3 models were measured. Run the same command again to retry the other one." in answer.err
    assert "spoilt gives NaN or infinity at encoder.hidden.2: 32 of 32 special vectors of one batch." in answer.err
    rows = json.loads(isoscope("table", out, "--metric", "mean_cosine", "--policy", "all", "--json").worked().out)
    assert {(row["model"], row["layer"]) for row in rows} == {(name, layer) for name in ("small-gpt2", "small-bert") for layer in (0, 2)}
    assert all(-1 <= row["value"] <= 1 for row in rows)
    again = isoscope("measure", gpt2, "--data", paragraphs, "--out", out, "--layers", "0,2").worked()
    assert "small-gpt2: already measured" in again.err


def test_infinity_in_an_embedding_table(model_copy, paragraphs, tmp_path):
    def spoil(weights):
        weights["bert.embeddings.word_embeddings.weight"][79, 3] = np.inf  # a word that the text does not have

    folder = model_copy(weights=spoil)
    words = ("--data", paragraphs, "--out", tmp_path / "run", "-q", "--threads", "1", "--layers", "0,input")
    isoscope("measure", folder, *words).refused("input_embedding of spoilt has 1 of 80 rows with NaN or infinity")
