"""A model in memory is measured over sources with its tokenizer: the numbers are those of the same model by name."""

import copy
import json
import shutil

import numpy as np
import pytest
import torch
import transformers

import isoscope
from isoscope.core.errors import IsoscopeError
from tests.measuring.test_measure import equal
from tests.measuring.test_pooling import encode, matches, pooled_rows
from tests.models.zoo import ZOO, build, clips, images

FEW = {"sample": 200, "threads": 1, "quiet": True}
BY_TITLE = {small.title: small for small in ZOO}


def load(folder, kind="AutoModel"):
    return getattr(transformers, kind).from_pretrained(folder)


def numbers(results):
    table = results.table(policy="every").drop(columns=["spec", "revision"])
    return table.assign(model="model", revision="", spec="")


@pytest.mark.parametrize(("name", "kind"), [("bert", "AutoModelForMaskedLM"), ("gpt2", "AutoModel"), ("t5", "AutoModelForSeq2SeqLM")])
def test_a_model_with_a_tokenizer_is_the_model_of_its_folder(small_models, texts, tmp_path, name, kind):
    folder = small_models(name)
    model, tokenizer = load(folder, kind).train(), load(folder, "AutoTokenizer")
    by_object = isoscope.measure(model, str(texts), tmp_path / "object", tokenizer=tokenizer, **FEW)
    by_name = isoscope.measure(str(folder), str(texts), tmp_path / "name", **FEW)
    expected = numbers(by_name)
    if name == "gpt2":  # AutoModel has no head, so no output embedding; it is tied in GPT-2 and not measured twice
        assert set(expected["kind"]) == set(numbers(by_object)["kind"])
    equal(expected, numbers(by_object), columns=("value", "low", "high"))
    assert model.training, "it is as it was"
    cell = by_object.manifests()[0]
    assert cell["columns"]["model"] == f"small-{name}"
    assert cell["spec"]["special_tokens"] == by_name.manifests()[0]["spec"]["special_tokens"]
    again = isoscope.measure(model, str(texts), tmp_path / "object", tokenizer=tokenizer, **FEW)
    assert len(again.manifests()) == 1, "the same weights are the same cell"
    with torch.no_grad():
        next(model.parameters()).add_(1e-3)
    isoscope.measure(model, str(texts), tmp_path / "object", tokenizer=tokenizer, name="changed", **FEW)
    assert len(isoscope.open(tmp_path / "object").manifests()) == 2


def test_training_continues_bit_for_bit(small_models, texts, tmp_path):
    """Llama keeps angles of rotary embeddings, which in inference mode would be tensors that no training can use."""
    folder = small_models("llama")
    model, tokenizer = load(folder, "AutoModelForCausalLM"), load(folder, "AutoTokenizer")
    other = copy.deepcopy(model)
    isoscope.measure(model, str(texts), tmp_path / "run", tokenizer=tokenizer, max_items=8, pool="last", **FEW)
    ids = torch.arange(24).reshape(2, 12)
    losses = []
    for trained in (model, other):
        optimiser = torch.optim.SGD(trained.parameters(), 0.1)
        for _ in range(2):
            loss = trained(input_ids=ids, labels=ids).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        losses.append(loss.item())
    assert losses[0] == losses[1]
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_images_and_speech_with_a_processor(tmp_path):
    build(BY_TITLE["ViT"], tmp_path / "vit")
    build(BY_TITLE["HuBERT"], tmp_path / "hubert")
    (tmp_path / "images").mkdir()
    (tmp_path / "clips").mkdir()
    images(tmp_path / "images")
    clips(tmp_path / "clips")
    preparing = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
    preparing.save_pretrained(tmp_path / "vit")
    extractor = transformers.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=False)
    extractor.save_pretrained(tmp_path / "hubert")
    for name, data, processor in (("vit", "images", preparing), ("hubert", "clips", extractor)):
        given = {"allow_partial": True, "layers": "1,3"} | FEW
        by_name = isoscope.measure(str(tmp_path / name), str(tmp_path / data), tmp_path / f"{name}-name", **given)
        del given["allow_partial"]
        by_object = isoscope.measure(load(tmp_path / name), str(tmp_path / data), tmp_path / f"{name}-object", processor=processor, **given)
        equal(numbers(by_name), numbers(by_object), columns=("value", "low", "high"))


def sentence_transformer(folder, *more, longest=48):
    """A chain of the package's own modules around the model of a folder."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(str(folder), max_seq_length=longest)
    return SentenceTransformer(modules=[transformer, Pooling(32, pooling_mode="mean"), *more], device="cpu")


def test_a_sentence_transformer_is_measured_as_it_is(small_models, texts, tmp_path):
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize

    folder = str(small_models("bert"))
    paragraphs = texts.read_text("utf-8").split("\n\n")
    model = sentence_transformer(folder, Normalize())
    short = [text for text in paragraphs if len(text.split()) < 40]
    own, here = model.encode(short).astype(float), encode(folder, short, "mean", 48)
    np.testing.assert_allclose(own, here / np.linalg.norm(here, axis=1, keepdims=True), atol=1e-5)
    results = isoscope.measure(model, str(texts), tmp_path / "run", pool="own", cosine_sd=True, **FEW)
    X = encode(folder, paragraphs, "mean", 48)
    rows = pooled_rows(results)
    matches(rows, X / np.linalg.norm(X, axis=1, keepdims=True))
    spec = results.manifests()[0]["spec"]
    assert (spec["seq_len"], spec["pool"]) == (48, "mean, normalised")
    cut = sentence_transformer(folder, Dense(32, 8))
    isoscope.measure(cut, str(texts), tmp_path / "states", max_items=4, **FEW)
    with pytest.raises(IsoscopeError, match=r"has a Dense behind its pooling"):
        isoscope.measure(cut, str(texts), tmp_path / "states", pool="own", max_items=4, **FEW)


def test_a_tokenizer_from_another_folder(small_models, texts, tmp_path):
    folder, bare, other = small_models("bert"), tmp_path / "small-bert", tmp_path / "tokenizer"
    bare.mkdir()
    other.mkdir()
    for path in folder.iterdir():
        shutil.copy(path, (other if "token" in path.name else bare) / path.name)
    with pytest.raises(IsoscopeError, match=r"has no tokenizer that fits its model: .* --tokenizer"):
        isoscope.measure(str(bare), str(texts), tmp_path / "none", **FEW)
    found = isoscope.measure(str(bare), str(texts), tmp_path / "found", tokenizer=str(other), **FEW)
    equal(numbers(isoscope.measure(str(folder), str(texts), tmp_path / "whole", **FEW)), numbers(found))
    settings = (other / "tokenizer_config.json").read_text("utf-8")
    (other / "tokenizer_config.json").write_text(settings.replace("64", "63"), "utf-8")
    isoscope.measure(str(bare), str(texts), tmp_path / "found", tokenizer=str(other), **FEW)
    assert len(isoscope.open(tmp_path / "found").manifests()) == 2, "another tokenizer is another cell"
    with pytest.raises(IsoscopeError, match=r"--tokenizer takes a folder with a tokenizer .* holds none"):
        isoscope.measure(str(bare), str(texts), tmp_path / "none", tokenizer=str(bare), **FEW)


def test_a_model_of_no_folder_is_not_pooled_as_the_current_folder_says(small_models, texts, tmp_path, monkeypatch):
    tokenizer = load(small_models("bert"), "AutoTokenizer")
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}', "utf-8")
    kinds = enumerate(("Transformer", "Pooling"))
    modules = [{"idx": i, "type": f"sentence_transformers.models.{kind}", "path": "1_Pooling" * i} for i, kind in kinds]
    (tmp_path / "modules.json").write_text(json.dumps(modules), "utf-8")
    monkeypatch.chdir(tmp_path)
    config = transformers.BertConfig(vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    model = transformers.BertModel(config, add_pooling_layer=False)
    with pytest.raises(IsoscopeError, match="BertModel declares no pooling of its own"):
        isoscope.measure(model, str(texts), tmp_path / "run", tokenizer=tokenizer, pool="own", **FEW)


def test_what_does_not_fit_a_model_in_memory_is_refused(small_models, texts, tmp_path):
    folder = small_models("bert")
    model, tokenizer = load(folder), load(folder, "AutoTokenizer")
    for wrong, sentence in (
        ({"tokenizer": tokenizer, "dtype": "bfloat16"}, "The option 'dtype' does not apply to a model in memory"),
        ({"tokenizer": tokenizer, "processes": 2}, "The option 'processes' does not apply to a model in memory"),
        ({"tokenizer": tokenizer, "processor": tokenizer}, "give one of the two"),
        ({"tokenizer": str(folder)}, r"A model in memory takes the tokenizer itself, .* got '.*small-bert'\."),
        ({"processor": torch.nn.Identity()}, r"The model reads text; give what makes its input with tokenizer=…, not a Identity"),
        ({}, r"A model of transformers also reads files, with tokenizer=… or processor=…"),
    ):
        with pytest.raises(IsoscopeError, match=sentence):
            isoscope.measure(model, str(texts), tmp_path / "run", quiet=True, **wrong)
    with pytest.raises(IsoscopeError, match=r"A Linear is not a model of transformers"):
        isoscope.measure(torch.nn.Linear(2, 2), str(texts), tmp_path / "run", tokenizer=tokenizer, quiet=True)
    with pytest.raises(IsoscopeError, match=r"belong to a model in memory; models by name bring their own"):
        isoscope.measure(str(folder), str(texts), tmp_path / "run", tokenizer=tokenizer, quiet=True)
