"""Pooled vectors are those that transformers' own outputs give, one per item, with the intervals and nulls of one point per item."""

import json
import shutil
from itertools import islice

import numpy as np
import pytest
import torch

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.measuring.options import Options
from isoscope.measuring.pooling import Pooling, declared_pooling
from isoscope.models.loading.readers.images import load_image_processor
from isoscope.sources import open_source
from tests.models.zoo import ZOO, build, images

FEW = {"sample": 200, "threads": 1, "quiet": True, "cosine_sd": True}
BY_TITLE = {small.title: small for small in ZOO}


def pooled_rows(results, policy="all"):
    table = results.table(policy=policy)
    rows = table[table["kind"] == "pooled"]
    return rows.set_index("metric")


def cosines(X):
    u = X / np.linalg.norm(X, axis=1, keepdims=True)
    pairs = (u @ u.T)[np.triu_indices(len(u), 1)]
    return pairs.mean(), pairs.std()


def matches(rows, X, rel=1e-5):
    """The cosines, norms and drift of the pooled site are those of these vectors (n, d)."""
    mean, sd = cosines(X)
    assert rows["value"]["mean_cosine"] == pytest.approx(mean, rel=rel)
    assert rows["value"]["between_cosine"] == pytest.approx(mean, rel=rel), "every pair is of two items"
    assert rows["value"]["cosine_sd"] == pytest.approx(sd, rel=10 * rel)
    assert rows["value"]["mean_norm"] == pytest.approx(np.linalg.norm(X, axis=1).mean(), rel=rel)
    n, squares = len(X), np.sum(X**2)
    drift = (np.sum(X.sum(0) ** 2) - squares) / (n * (n - 1)) / (squares / n)
    assert rows["value"]["drift_ratio"] == pytest.approx(drift, rel=rel)
    assert set(rows["n"].dropna()) == {len(X)}
    assert set(rows["d"].dropna()) == {X.shape[1]}


def encode(folder, paragraphs, pool, seq_len, layer=-1):
    """The vectors of paragraphs by transformers alone: the mean of their chunks' vectors, for `mean` weighted by length."""
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    vectors = []
    for text in paragraphs:
        encoded = tokenizer(text, truncation=True, max_length=seq_len, return_overflowing_tokens=True)
        chunks = []
        for ids in encoded["input_ids"]:
            with torch.no_grad():
                states = model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states[layer][0].double().numpy()
            chunks.append((states.mean(0), len(states)) if pool == "mean" else (states[0 if pool == "cls" else -1], 1))
        vectors.append(sum(vector * size for vector, size in chunks) / sum(size for _, size in chunks))
    return np.array(vectors)


@pytest.fixture(scope="module")
def paragraphs(texts):
    """Most are shorter than a sequence of 64 tokens, and some take three."""
    return texts.read_text("utf-8").split("\n\n")


@pytest.mark.parametrize("pool", ["mean", "cls", "last"])
def test_pooled_vectors_of_text_are_those_of_transformers(small_models, texts, paragraphs, tmp_path, pool):
    folder = str(small_models("bert"))
    results = isoscope.measure(folder, str(texts), tmp_path / "run", pool=pool, batch_size=3, **FEW)
    table = results.table()
    assert table[table["kind"] == "pooled"]["layer"].unique().tolist() == [3], "of the last layer, with its number"
    rows = pooled_rows(results)
    matches(rows, encode(folder, paragraphs, pool, 64))
    assert rows["low"]["between_cosine"] < rows["value"]["between_cosine"] < rows["high"]["between_cosine"]
    assert rows["null"]["mean_cosine"] == 0
    assert rows["value"].get("within_cosine") is None or np.isnan(rows["value"]["within_cosine"]), "an item has one vector"
    body = pooled_rows(results, "body")
    assert body["value"]["mean_cosine"] == rows["value"]["mean_cosine"], "a pooled vector belongs to every token policy"


def test_layers_are_pooled_on_request_and_shards_merge(small_models, texts, paragraphs, tmp_path):
    folder = str(small_models("gpt2"))
    wanted = FEW | {"pool": "mean", "pool_layers": "1,final", "layers": "2"}
    whole = isoscope.measure(folder, str(texts), tmp_path / "whole", **wanted)
    table = whole.table()
    assert table[["kind", "layer"]].dropna().drop_duplicates().to_numpy().tolist() == [["pooled", 1], ["hidden", 2], ["pooled", 4]]
    for layer, index in ((1, 1), (4, -1)):  # transformers gives the last state after the final norm
        rows = table[(table["kind"] == "pooled") & (table["layer"] == layer)].set_index("metric")
        matches(rows, encode(folder, paragraphs, "mean", 64, index))
    parts = [isoscope.measure(folder, str(texts), tmp_path / f"{i}", shard=f"{i}/3", batch_size=i, **wanted).path for i in (1, 2, 3)]
    merged = isoscope.merge(parts, tmp_path / "merged").table()
    for column in ("value", "low", "high", "n"):
        np.testing.assert_allclose(merged[column].astype(float), table[column].astype(float), rtol=1e-4, atol=1e-5)


def test_a_class_token_of_a_vision_transformer_and_the_mean_of_its_patches(tmp_path):
    from transformers import ViTModel

    build(BY_TITLE["ViT"], tmp_path / "vit")
    (tmp_path / "images").mkdir()
    images(tmp_path / "images")
    model = ViTModel.from_pretrained(tmp_path / "vit").eval()
    processor, states = load_image_processor(tmp_path / "vit", model.config, {}), []
    for item in open_source(str(tmp_path / "images"), modality="images").items():
        pixels = torch.as_tensor(np.asarray(processor(images=item.content, return_tensors="np")["pixel_values"]), dtype=torch.float32)
        with torch.no_grad():
            states.append(model(pixel_values=pixels).last_hidden_state[0].double().numpy())
    states = np.array(states)
    for pool, X in (("cls", states[:, 0]), ("mean", states[:, 1:].mean(1))):
        results = isoscope.measure(str(tmp_path / "vit"), str(tmp_path / "images"), tmp_path / pool, pool=pool, allow_partial=True, **FEW)
        rows = pooled_rows(results)
        assert set(rows["layer"]) == {4}, "after the final norm"
        matches(rows, X, rel=1e-4)


def test_a_pooler_is_measured_as_the_model_gives_it(small_models, texts, paragraphs, tmp_path):
    from transformers import AutoTokenizer, BertModel

    folder = tmp_path / "bert"
    shutil.copytree(small_models("bert"), folder)
    torch.manual_seed(1)
    model = BertModel.from_pretrained(folder)
    model.save_pretrained(folder)
    saved = BertModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    short = tmp_path / "short.txt"
    chosen = [text for text in paragraphs if len(text.split()) < 40]
    short.write_text("\n\n".join(chosen), "utf-8")
    with torch.no_grad():
        X = np.array([saved(**tokenizer(text, return_tensors="pt")).pooler_output[0].double().numpy() for text in chosen])
    rows = pooled_rows(isoscope.measure(str(folder), str(short), tmp_path / "run", pool="own", **FEW))
    matches(rows, X)
    with pytest.raises(IsoscopeError, match=r"small-bert declares no pooling of its own: .*; use --pool mean, cls or last"):
        isoscope.measure(str(small_models("bert")), str(short), tmp_path / "none", pool="own", **FEW)


def write_chain(folder, *kinds, config=None):
    modules = [{"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"st.models.{kind}"} for i, kind in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config or {"pooling_mode_mean_tokens": True}))


def test_what_a_sentence_transformer_declares(tmp_path):
    write_chain(tmp_path, "Transformer", "Pooling", "Normalize")
    assert declared_pooling(tmp_path) == Pooling(("mean",), normalizes=True)
    write_chain(tmp_path, "Transformer", "Pooling", config={"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True})
    assert declared_pooling(tmp_path) == Pooling(("cls", "mean"))
    write_chain(tmp_path, "Transformer", "Pooling", config={"pooling_mode": "lasttoken", "include_prompt": True})
    assert declared_pooling(tmp_path) == Pooling(("last",))
    write_chain(tmp_path, "Transformer", "Pooling", "Dense")
    with pytest.raises(IsoscopeError, match=r"has a Dense behind its pooling"):
        declared_pooling(tmp_path)
    write_chain(tmp_path, "Transformer", "Pooling", config={"pooling_mode_max_tokens": True})
    with pytest.raises(IsoscopeError, match=r"pools by max_tokens, which is not computed here"):
        declared_pooling(tmp_path)
    (tmp_path / "1_Pooling" / "config.json").write_text("[")
    with pytest.raises(IsoscopeError, match=r"cannot be read"):
        declared_pooling(tmp_path)
    assert declared_pooling(tmp_path / "1_Pooling") is None


@pytest.mark.models
def test_the_vectors_of_minilm_are_those_it_ships(minilm, tmp_path):
    """Mean pooling and normalising, as 1_Pooling and modules.json declare; documents longer than a sequence are averaged over chunks."""
    folder = str(minilm)
    documents = [item.content for item in islice(open_source("embedded").items(), 40)]
    X = encode(folder, documents, "mean", 128)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    rows = pooled_rows(isoscope.measure(folder, "embedded", tmp_path / "run", max_items=40, seq_len=128, pool="own", layers="6", **FEW))
    matches(rows, X, rel=2e-5)
    assert rows["value"]["mean_norm"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("model", "pool", "sentence"),
    [
        ("ViT", "last", "--pool last is of tokens, and .* reads images; use --pool mean"),
        ("ResNet", "cls", "--pool cls takes the state of a class token, and .* has none"),
        ("HuBERT", "cls", "--pool cls is of tokens, and .* reads frames; use --pool mean"),
    ],
)
def test_pooling_that_makes_no_sense_is_refused(tmp_path, model, pool, sentence):
    build(BY_TITLE[model], tmp_path / "model")
    with pytest.raises(IsoscopeError, match=sentence):
        isoscope.measure(str(tmp_path / "model"), "embedded", tmp_path / "run", pool=pool, max_items=2, allow_partial=True, **FEW)


def test_options_of_pooling_are_checked(tmp_path, small_models):
    with pytest.raises(IsoscopeError, match=r"--pool must be one of mean, cls, last, own; got 'men', did you mean mean\?"):
        isoscope.measure("model", out=tmp_path, pool="men")
    with pytest.raises(IsoscopeError, match=r"--pool-layers says which layers are pooled; add --pool"):
        isoscope.measure("model", out=tmp_path, pool_layers="1")
    sites = [Site("encoder", "hidden", i) for i in range(4)]
    others = [Site("encoder", "attention", 1), Site("encoder", "input_embedding")]
    for taps in (("hidden",), ("attention",)):
        Options(taps=taps, layers="1", pool="cls", pool_layers="0,-1").check_layers(sites + others, {"encoder": 3}, "bert")
        with pytest.raises(IsoscopeError, match=r"--pool-layers must name layers that bert has \(0 to 3\); got input"):
            Options(taps=taps, layers="1", pool="cls", pool_layers="0,input").check_layers(sites + others, {"encoder": 3}, "bert")
    with pytest.raises(IsoscopeError, match=r"--pool-layers must name layers that small-bert has"):
        isoscope.measure(str(small_models("bert")), out=tmp_path, pool="mean", pool_layers="9", max_items=2, quiet=True)
