"""Which special tokens a model is fed: those that its own files ask for, and the run says which they were."""

import json
import shutil

import gguf
import numpy as np
import pytest
import torch

import isoscope
from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.models.loading.load import load_model
from isoscope.models.naming.model_name import resolve_model
from isoscope.report.page import render_page
from isoscope.trust.gguf import special_tokens
from tests.conftest import word_tokenizer
from tests.hostile.seeds import write_gguf
from tests.models.zoo import ZOO, build

TEXT = "abc def gh"
IDS = [7, 8, 9, 10, 7, 11, 12, 13, 7, 14, 15]
"""The text in the vocabulary of `write_gguf`: ▁ is 7, a is 8."""
BOS, EOS = 1, 2
CASES = [
    ({"add_bos_token": True, "add_eos_token": False}, [BOS], [], "<s> …"),
    ({"add_bos_token": False, "add_eos_token": False}, [], [], "none"),
    ({"add_bos_token": True, "add_eos_token": True}, [BOS], [EOS], "<s> … </s>"),
    ({"add_bos_token": False, "add_eos_token": True}, [], [EOS], "… </s>"),
    ({}, [BOS], [], "<s> …"),  # a sentencepiece vocabulary, which llama.cpp gives a BOS unless the file says otherwise
]


def reader_of(place, seq_len=None):
    model = load_model(resolve_model(str(place)), device="cpu")
    return model.family.reader(model, seq_len)


@pytest.mark.parametrize(("settings", "before", "after", "named"), CASES)
def test_a_gguf_file_is_fed_as_it_asks(tmp_path, settings, before, after, named):
    write_gguf(tmp_path / "a.gguf", **settings)
    reader = reader_of(tmp_path / "a.gguf")
    (piece,) = reader.chunks(TEXT)
    assert piece.data.tolist() == before + IDS + after
    assert piece.special.tolist() == [True] * len(before) + [False] * len(IDS) + [True] * len(after)
    assert reader.special_tokens == named


def test_every_piece_of_a_gguf_file_gets_the_tokens(tmp_path):
    write_gguf(tmp_path / "a.gguf", add_bos_token=True, add_eos_token=True)
    pieces = reader_of(tmp_path / "a.gguf", 6).chunks(TEXT)
    assert [piece.data.tolist() for piece in pieces] == [[BOS, *IDS[i : i + 4], EOS] for i in (0, 4, 8)]


def test_the_ids_are_those_in_the_file(tmp_path):
    write_gguf(tmp_path / "a.gguf", bos=9, eos=0, add_bos_token=True, add_eos_token=True)
    (piece,) = reader_of(tmp_path / "a.gguf").chunks(TEXT)
    assert piece.data.tolist() == [9, *IDS, 0]


@pytest.mark.parametrize("settings", [CASES[0][0], CASES[1][0]])
def test_states_of_a_gguf_file_are_those_of_the_tokens_it_asks_for(tmp_path, settings):
    path = tmp_path / "a.gguf"
    write_gguf(path, **settings)
    texts = ["abc def gh", "a quick brown", "fox jumps over", "hello you"]
    (tmp_path / "data.txt").write_text("\n\n".join(texts))
    results = isoscope.measure(str(path), str(tmp_path / "data.txt"), tmp_path / "run", quiet=True, threads=1)
    model = load_model(resolve_model(str(path)), device="cpu")
    first = [BOS] if settings["add_bos_token"] else []
    states = []
    for text in texts:
        ids = first + [7 if letter == " " else 8 + ord(letter) - ord("a") for letter in f" {text}"]
        with torch.no_grad():
            states.append(model.base(torch.tensor([ids]), output_hidden_states=True).hidden_states[0][0].double().numpy())
    x = np.concatenate(states)
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosine = (np.square(u.sum(0)).sum() - len(u)) / (len(u) * (len(u) - 1))
    table = results.table("mean_cosine", "all")
    row = table[(table["kind"] == "hidden") & (table["layer"] == 0)].iloc[0]
    assert row["n"] == len(x)
    assert row["value"] == pytest.approx(cosine, abs=1e-6)


def test_the_run_and_the_page_say_which_special_tokens_were_fed(tmp_path, texts):
    write_gguf(tmp_path / "with.gguf", add_bos_token=True)
    write_gguf(tmp_path / "without.gguf", add_bos_token=False)
    models = [str(tmp_path / "with.gguf"), str(tmp_path / "without.gguf")]
    results = isoscope.measure(models, str(texts), tmp_path / "run", quiet=True, threads=1, max_items=31)
    fed = {manifest["columns"]["model"]: manifest["spec"]["special_tokens"] for manifest in results.manifests()}
    assert fed == {"with": "<s> …", "without": "none"}
    shown = render_page(results.table(), results.series(), results.manifests())
    assert shown.count("<dt>special_tokens</dt><dd>&lt;s&gt; …</dd>") == 1
    assert shown.count("<dt>special_tokens</dt><dd>none</dd>") == 1


def test_the_way_of_feeding_is_part_of_a_models_identity(tmp_path, monkeypatch):
    write_gguf(tmp_path / "a.gguf", add_bos_token=True)
    write_gguf(tmp_path / "b.gguf", add_bos_token=False)
    folder = build(ZOO[0], tmp_path / "bert")
    places = [tmp_path / "a.gguf", tmp_path / "b.gguf", folder]
    now = [resolve_model(str(place)).weights for place in places]
    assert len(set(now)) == 3
    monkeypatch.setattr("isoscope.models.naming.model_name.FEEDING", "in another way")
    assert not set(now) & {resolve_model(str(place)).weights for place in places}


def test_a_tokenizer_next_to_a_gguf_file_is_not_the_file_s(tmp_path):
    write_gguf(tmp_path / "a.gguf", add_bos_token=True)
    word_tokenizer(tmp_path, around=True)
    reader = reader_of(tmp_path / "a.gguf")
    assert reader.special_tokens == "<s> …"
    assert reader.chunks(TEXT)[0].data.tolist() == [BOS, *IDS]


def header(path, model, pre, **fields):
    """A GGUF file with a tokenizer of three tokens and no weights."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list([b"a", b"b", b"c"])
    for name, value in fields.items():
        add = {bool: writer.add_bool, int: writer.add_int32, float: writer.add_float32}[type(value)]
        add(f"tokenizer.ggml.{name}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("model", "pre", "fields", "wanted"),
    [
        ("llama", None, {"bos_token_id": 1}, (1, None)),
        ("gpt2", "llama-bpe", {"bos_token_id": 1, "eos_token_id": 2}, (1, None)),
        ("gpt2", "smollm", {"bos_token_id": 1, "eos_token_id": 2}, (None, None)),
        ("gpt2", None, {"bos_token_id": 1}, (None, None)),
        ("t5", None, {"eos_token_id": 2}, (None, 2)),
        ("gpt2", "llama-bpe", {"bos_token_id": 1, "add_bos_token": False}, (None, None)),
        ("gpt2", "smollm", {"bos_token_id": 1, "add_bos_token": True}, (1, None)),
    ],
)
def test_a_gguf_file_without_settings_follows_llama_cpp(tmp_path, model, pre, fields, wanted):
    assert special_tokens(header(tmp_path / "a.gguf", model, pre, **fields)) == wanted


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"add_bos_token": True},
            r"wants a token before each sequence \(add_bos_token\), but it has no bos_token_id; .*-by-id bos ID a\.gguf",
        ),
        ({"add_bos_token": True, "bos_token_id": -1}, "but it has no bos_token_id"),
        ({"add_eos_token": True, "eos_token_id": 3}, r"after each sequence \(add_eos_token\), but eos_token_id is 3, and it has 3 tokens"),
        ({"add_bos_token": 0.5}, "its add_bos_token is of type 6, which is neither a whole number nor true or false"),
    ],
)
def test_a_gguf_file_that_wants_a_token_it_does_not_have_is_refused(tmp_path, fields, reason):
    with pytest.raises(IsoscopeError, match=reason):
        special_tokens(header(tmp_path / "a.gguf", "gpt2", None, **fields))


def small(title):
    return next(one for one in ZOO if one.title == title)


def settings_of(folder, **more):
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | more))


@pytest.mark.parametrize(("around", "wanted"), [(False, True), (True, False), (True, True), (False, False)])
def test_a_folder_is_fed_as_its_settings_ask(tmp_path, around, wanted):
    folder = build(small("Llama"), tmp_path / "llama")
    word_tokenizer(folder, around=around)
    settings_of(folder, bos_token="[CLS]", eos_token="[SEP]", add_bos_token=wanted, add_eos_token=wanted)
    if around == wanted:
        reader = reader_of(folder)
    else:
        with pytest.warns(IsoscopeWarning, match="tokenizer_config.json and tokenizer.json ask for different special tokens"):
            reader = reader_of(folder)
    assert reader.special_tokens == ("[CLS] … [SEP]" if wanted else "none")
    assert reader.chunks("the of")[0].data.tolist() == ([2, 5, 6, 3] if wanted else [5, 6])


def test_settings_do_not_take_away_tokens_that_are_neither_bos_nor_eos(tmp_path):
    folder = build(small("BERT"), tmp_path / "bert")
    settings_of(folder, add_bos_token=False, add_eos_token=False)
    assert reader_of(folder).special_tokens == "[CLS] … [SEP]"


@pytest.mark.parametrize(
    ("title", "named"),
    [
        ("BERT", "[CLS] … [SEP]"),
        ("GPT-2", "none"),
        ("T5", "encoder: [CLS] … [SEP]; decoder: [PAD] [CLS] …"),
        ("T5 encoder", "[CLS] … [SEP]"),
        ("CANINE-s", "<57344> … <57345>"),
        ("CharacterBERT", "[CLS] … [SEP]"),
        ("Whisper", "decoder: 2 …"),
        ("ViT", ""),
    ],
)
def test_readers_name_the_special_tokens_that_they_feed(tmp_path, title, named):
    assert reader_of(build(small(title), tmp_path / "model")).special_tokens == named


def test_the_decoder_is_fed_the_tokens_that_are_named(tmp_path):
    reader = reader_of(build(small("T5"), tmp_path / "t5"))
    fed = reader.feed(reader.chunks("the of")).arguments
    assert fed["input_ids"].tolist() == [[2, 5, 6, 3]]
    assert fed["decoder_input_ids"].tolist() == [[0, 2, 5, 6]]


def test_a_start_token_that_the_tokenizer_does_not_know_is_named_by_its_number(tmp_path):
    folder = build(small("T5"), tmp_path / "t5")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"decoder_start_token_id": 79}))
    assert reader_of(folder).special_tokens == "encoder: [CLS] … [SEP]; decoder: <79> [CLS] …"


FROM_FILES = [one.title for one in ZOO if one.tokenizer in ("around", "plain")]


@pytest.mark.parametrize("title", FROM_FILES)
def test_the_message_about_a_missing_tokenizer_tells_how_to_add_one(tmp_path, title):
    folder = build(small(title), tmp_path / "model")
    expected = reader_of(folder).chunks("the of and")[0].data.tolist()
    kept = tmp_path / "kept"
    kept.mkdir()
    for path in folder.glob("tokenizer*"):
        shutil.move(path, kept / path.name)
    says = "has no tokenizer that fits its model: copy tokenizer.json and tokenizer_config.json of the model .*or call save_pretrained"
    with pytest.raises(IsoscopeError, match=says):
        reader_of(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(kept / name, folder / name)
    assert reader_of(folder).chunks("the of and")[0].data.tolist() == expected
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(kept).save_pretrained(folder)
    assert reader_of(folder).chunks("the of and")[0].data.tolist() == expected
