"""Weights are read from any file, under any prefix. Those of a head may be missing; those of a measured stack are refused."""

import json
import re
import warnings

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import isoscope
from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.models.loading.load import load_model
from isoscope.models.loading.weights import compare_weights, damaged_safetensors_as_user_errors, read_state, state_for, strip_prefix
from isoscope.models.naming.model_name import resolve_model
from isoscope.runs.results import Results
from isoscope.trust.model_files import is_standard, weights_in
from tests.models.zoo import ZOO, Small, build

HEADS = [
    ("ELECTRA", "ElectraForPreTraining", {}, "discriminator_predictions."),
    ("ELECTRA", "ElectraForMaskedLM", {}, "generator_"),
    ("BERT", "BertForMaskedLM", {}, "cls."),
    ("Llama", "LlamaForCausalLM", {"tie_word_embeddings": False}, "lm_head."),
    ("MANTa-LM", "MantaForConditionalGeneration", {}, "lm_head."),  # the head is part of what is run
    ("BART", "BartForConditionalGeneration", {"tie_word_embeddings": False}, "lm_head."),
]


def made(folder, title, model, more):
    one = next(small for small in ZOO if small.title == title)
    return build(Small(one.title, one.family, model, one.config | more, one.sites, one.tokenizer), folder)


def spoil(folder, change):
    """Rewrite the weights of a folder; the names of those that are gone or changed."""
    path = folder / "model.safetensors"
    before = load_file(path)
    after = change(dict(before))
    save_file(after, path, metadata={"format": "pt"})
    return sorted(name for name in before if name not in after or before[name].shape != after[name].shape)


def without(*beginnings):
    return lambda weights: {name: value for name, value in weights.items() if not name.startswith(beginnings)}


def measured(folder, data, out):
    return isoscope.measure(str(folder), data, out, quiet=True, threads=1)


def numbers(results, kinds):
    table = results.table()
    found = table[table["kind"].isin(kinds)]
    return {
        (*row[:6],): row[6]
        for row in found[["stack", "kind", "layer", "policy", "metric", "n", "value"]].fillna(-1).itertuples(index=False)
    }


@pytest.mark.parametrize(("title", "model", "more", "head"), HEADS)
def test_a_checkpoint_that_lacks_only_its_head_is_measured(tmp_path, data, title, model, more, head):
    folder = made(tmp_path / "model", title, model, more)
    whole = measured(folder, data["text"], tmp_path / "whole")
    gone = spoil(folder, without(head))
    assert gone
    named = rf"model lacks weights of a head that no measured state depends on: \d missing .*\({re.escape(gone[0])}"
    with pytest.warns(IsoscopeWarning, match=named):
        headless = measured(folder, data["text"], tmp_path / "headless")
    kinds = ("hidden", "final", "input_embedding")
    assert numbers(headless, kinds) == numbers(whole, kinds)
    (manifest,) = headless.manifests()
    assert gone[0] in manifest["spec"]["weights_that_do_not_fit"]
    assert "weights_that_do_not_fit" not in whole.manifests()[0]["spec"]
    assert not (headless.table()["kind"] == "output_embedding").any()


def test_an_output_table_is_measured_only_if_the_checkpoint_has_it(tmp_path, data):
    folder = made(tmp_path / "model", "Llama", "LlamaForCausalLM", {"tie_word_embeddings": False})
    assert load_model(resolve_model(str(folder)), device="cpu").output_embedding is not None
    assert "output_embedding" in set(measured(folder, data["text"], tmp_path / "whole").table()["kind"])
    spoil(folder, without("lm_head."))
    with pytest.warns(IsoscopeWarning, match=r"1 missing and initialised at random \(lm_head.weight\)"):
        assert load_model(resolve_model(str(folder)), device="cpu").output_embedding is None


def test_a_head_of_another_shape_is_named_too(tmp_path):
    folder = made(tmp_path / "model", "ViT", "ViTForImageClassification", {})

    def cut(weights):
        return weights | {name: weights[name][:1].clone() for name in weights if name.startswith("classifier.")}

    assert spoil(folder, cut) == ["classifier.bias", "classifier.weight"]
    with pytest.warns(IsoscopeWarning, match=r"2 of another shape and initialised at random \(classifier.bias: \(1,\), not \(2,\)"):
        load_model(resolve_model(str(folder)), device="cpu")


@pytest.mark.parametrize(("title", "model", "more", "head"), HEADS)
def test_a_weight_of_a_stack_is_refused_whether_or_not_the_head_is_there(tmp_path, title, model, more, head):
    folder = made(tmp_path / "model", title, model, more)
    blocks = sorted(name for name in load_file(folder / "model.safetensors") if re.search(r"\.1\..*weight$", name))
    for gone in (without(blocks[0]), without(blocks[0], head)):
        spoil(folder, gone)
        with pytest.raises(
            IsoscopeError, match=rf"do not fit its architecture: 1 missing and initialised at random \({re.escape(blocks[0])}\)"
        ):
            load_model(resolve_model(str(folder)), device="cpu")


@pytest.mark.parametrize(
    ("title", "model", "table"),
    [("GPT-2", "GPT2LMHeadModel", "transformer.wte.weight"), ("T5", "T5ForConditionalGeneration", "shared.weight")],
)
def test_a_tied_table_is_part_of_what_is_measured(tmp_path, title, model, table):
    folder = made(tmp_path / "model", title, model, {})
    with warnings.catch_warnings():
        warnings.simplefilter("error", IsoscopeWarning)
        load_model(resolve_model(str(folder)), device="cpu")  # its file has one name for both tables, and nothing is missing
    assert spoil(folder, without(table)) == [table]
    with pytest.raises(IsoscopeError, match="do not fit its architecture"):
        load_model(resolve_model(str(folder)), device="cpu")


def test_whisper_without_an_output_table_is_fed_its_prompt_alone(tmp_path):
    folder = made(tmp_path / "model", "Whisper", "WhisperForConditionalGeneration", {"tie_word_embeddings": False})
    spoil(folder, without("proj_out."))
    with pytest.warns(IsoscopeWarning, match=r"\(proj_out.weight\)"):
        model = load_model(resolve_model(str(folder)), device="cpu")
    reader = model.family.reader(model, None)
    fed = reader.feed(reader.probe(2, 1))
    assert fed.arguments["decoder_input_ids"].tolist() == [[2], [2]]


def test_names_of_a_head_inside_a_stack_do_not_help():
    """What counts is where a weight lies, not what it is called: here blocks hold modules with the names of heads."""

    class Base(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList([torch.nn.ModuleDict({"lm_head": torch.nn.Linear(2, 2, bias=False)})])

    class Whole(torch.nn.Module):
        base_model_prefix = "base"

        def __init__(self):
            super().__init__()
            self.base, self.lm_head = Base(), torch.nn.Linear(2, 3, bias=False)
            self.base_model = self.base

        def get_output_embeddings(self):
            return self.lm_head

        def get_input_embeddings(self):
            raise NotImplementedError

    found = compare_weights(Whole(), {"missing_keys": ["base.blocks.0.lm_head.weight", "lm_head.weight"]})
    assert found.inside == "1 missing and initialised at random (base.blocks.0.lm_head.weight)"
    assert found.outside == "1 missing and initialised at random (lm_head.weight)"


def test_the_command_measures_a_headless_checkpoint_and_names_what_is_missing(tmp_path, data):
    from tests.cli.calling import isoscope as call

    folder = made(tmp_path / "model", "ELECTRA", "ElectraForPreTraining", {})
    spoil(folder, without("discriminator_predictions."))
    done = call("measure", folder, "--data", data["text"], "--out", tmp_path / "run", "--layers", "1", "--threads", "1", "-q").worked()
    assert "4 missing and initialised at random (discriminator_predictions.dense.bias" in done.err
    assert "discriminator_predictions.dense.bias" in str(Results(tmp_path / "run").manifests()[0]["spec"])


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.block = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))


class Wrapped(nn.Module):
    """As a Lightning module holds a network."""

    def __init__(self, net):
        super().__init__()
        self.net = net
        self.loss = nn.Linear(1, 1)


@pytest.mark.parametrize(
    ("wrap", "prefix"),
    [
        (lambda model: model, ""),
        (nn.DataParallel, "module."),
        (torch.compile, "_orig_mod."),
        (Wrapped, "net."),
        (lambda model: nn.DataParallel(Wrapped(torch.compile(model))), "module.net._orig_mod."),
    ],
)
def test_prefixes_of_wrappers_are_removed_from_names(wrap, prefix):
    expected = Tiny().state_dict()
    names = strip_prefix(expected, wrap(Tiny()).state_dict())
    assert names == {prefix + key: key for key in expected}


def test_a_prefix_needs_nearly_all_names():
    expected = [f"layer.{number}.weight" for number in range(20)]
    assert strip_prefix(expected, [f"model.{key}" for key in expected[:18]]) is not None
    assert strip_prefix(expected, [f"model.{key}" for key in expected[:17]]) is None
    assert strip_prefix(expected, []) is None
    both = [f"{who}.{key}" for who in ("student", "teacher") for key in expected]
    assert set(strip_prefix(expected, both[:-1])) == set(both[:20])  # the one that is whole


def equal(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


def test_states_are_read_from_whatever_file(tmp_path):
    state = Tiny().state_dict()
    keys = sorted(state)
    halves = {f"-{number}": {key: state[key] for key in part} for number, part in enumerate((keys[:2], keys[2:]))}

    def folder(name):
        (tmp_path / name).mkdir()
        return tmp_path / name

    save_file(state, folder("one") / "model.safetensors")
    torch.save({**state, "epoch": 3}, folder("bin") / "pytorch_model.bin")
    torch.save({"state_dict": state, "optimizer_states": [{"state": {}}], "epoch": 3}, folder("lightning") / "epoch=3.ckpt")
    torch.save({"model": state, "step": 1}, folder("nested") / "checkpoint.pt")
    for ending, whole, write in ((".safetensors", "model", save_file), (".bin", "pytorch_model", torch.save)):
        place = folder(f"sharded{ending}")
        for part, tensors in halves.items():
            write(tensors, place / f"{whole}{part}{ending}")
        weight_map = {key: f"{whole}{part}{ending}" for part, tensors in halves.items() for key in tensors}
        (place / f"{whole}{ending}.index.json").write_text(json.dumps({"weight_map": weight_map}))
        (place / f"stray{ending}").write_bytes(b"not part of it")
    for place in tmp_path.iterdir():
        assert equal(read_state(place), state), place
        assert is_standard(place) == (place.name not in ("lightning", "nested"))
    (tmp_path / "sharded.bin" / "pytorch_model-1.bin").unlink()
    with pytest.raises(IsoscopeError, match=r"lacks pytorch_model-1\.bin, which pytorch_model\.bin\.index\.json names"):
        weights_in(tmp_path / "sharded.bin")
    with pytest.raises(IsoscopeError, match="holds no weights"):
        read_state(folder("empty"))


def test_a_reader_that_fails_in_several_lines_is_quoted_in_one(tmp_path):
    with pytest.raises(IsoscopeError) as refused, damaged_safetensors_as_user_errors(tmp_path / "a.safetensors"):
        raise RuntimeError("shape '[-1]' is invalid.\nException raised from here\n  frame #0: there")
    sentence = f"The weights in {tmp_path / 'a.safetensors'} are damaged (shape '[-1]' is invalid); copy or download the file again."
    assert str(refused.value) == sentence


def test_a_prefixed_checkpoint_becomes_the_model(small_models, tmp_path):
    from transformers import BertForMaskedLM

    plain = BertForMaskedLM.from_pretrained(small_models("bert"))

    def loaded(saved):
        torch.save({"state_dict": saved.state_dict()}, tmp_path / "last.ckpt")
        state = state_for(BertForMaskedLM(plain.config), tmp_path)
        return BertForMaskedLM.from_pretrained(None, config=plain.config, state_dict=state, output_loading_info=True)

    whole, report = loaded(nn.DataParallel(plain))
    assert not report["missing_keys"]
    assert equal(whole.state_dict(), plain.state_dict())
    base, report = loaded(Wrapped(plain.bert))
    assert {key.partition(".")[0] for key in report["missing_keys"]} == {"cls"}
    assert equal(base.bert.state_dict(), plain.bert.state_dict())
    torch.save({"other.weight": torch.ones(1)}, tmp_path / "last.ckpt")
    assert state_for(plain, tmp_path) is None
