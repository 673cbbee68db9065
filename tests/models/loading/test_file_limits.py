"""Rules of a tokenizer that multiply a text are refused before any text, or any token of its own, is given to them."""

import base64
import io
import json
import shutil
import struct

import pytest
from sentencepiece import SentencePieceTrainer, sentencepiece_model_pb2
from tokenizers import Regex, normalizers, pre_tokenizers, processors

from isoscope.core.errors import IsoscopeError
from isoscope.models.loading.file_limits import MAX_GROWTH, normalizer_growth, pre_tokenizer_growth, template_growth
from isoscope.models.loading.load import load_model
from isoscope.models.naming.model_name import resolve_model
from tests.hostile.confined import confined


def rules_of(made):
    return json.loads(made.__getstate__())


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def sequence(*steps, name="normalizers"):
    return {"type": "Sequence", name: list(steps)}


def charsmap(*texts):
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(struct.pack("<I", 4) + bytes(4) + b"\0".join(texts)).decode()}


DOUBLING = [replace("t", "tt") for _ in range(30)]
MARK = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
SPLIT = {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False}
TWICE = {
    "type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 2,
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {},
}
HOSTILE = {
    "replacements": {"normalizer": sequence(*DOUBLING)},
    "nested": {"normalizer": sequence(sequence(*DOUBLING[:15]), sequence(sequence(*DOUBLING[15:])))},
    "expressions": {"normalizer": sequence(*[replace("[a-z]", "tt", "Regex") for _ in range(30)])},
    "nothing": {"normalizer": sequence(*[replace("", "t", "Regex") for _ in range(30)])},
    "one": {"normalizer": replace("e", "e" * 10_000)},
    "unicode": {"normalizer": sequence(*[replace("ا", "ﷺ"), {"type": "NFKD"}] * 6)},
    "prepended": {"normalizer": {"type": "Prepend", "prepend": "t" * 10_000}},
    "table": {"normalizer": charsmap(b"a", b"t" * 5000)},
    "marks": {"pre_tokenizer": sequence(*[SPLIT, MARK] * 20, name="pretokenizers")},
    "templates": {"post_processor": sequence(*[TWICE] * 30, name="processors")},
}


@pytest.fixture
def model(small_models, tmp_path):
    """`model(rules)`: a copy of BERT with other rules in its tokenizer.json."""

    def copy(rules):
        folder = shutil.copytree(small_models("bert"), tmp_path / "model")
        path = folder / "tokenizer.json"
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | rules), "utf-8")
        return folder

    return copy


@pytest.mark.parametrize("name", HOSTILE)
def test_rules_that_multiply_a_text_are_refused(model, name):
    with pytest.raises(IsoscopeError, match=r"^The rules in the tokenizer\.json of .* times is the limit; remove") as error:
        load_model(resolve_model(str(model(HOSTILE[name]))), device="cpu")
    assert "\n" not in str(error.value)


def test_replacements_of_replacements_take_no_memory(model, texts, tmp_path):
    """A tokenizer.json of a few kilobytes that would make 2³⁰ letters of one."""
    folder = model(HOSTILE["replacements"])
    assert (folder / "tokenizer.json").stat().st_size < 19_000
    call = f"isoscope.measure({str(folder)!r}, {str(texts)!r}, {str(tmp_path / 'run')!r}, max_items=2, sample=0, threads=1, quiet=True)"
    said = confined(call, setup="import isoscope, torch, transformers; torch.set_num_threads(1)", megabytes=1200)
    assert "may make a text 1,073,741,824 times as long" in said[0]


def test_rules_within_rules_end(model):
    rules = DOUBLING[0]
    for _ in range(80):
        rules = sequence(rules)
    with pytest.raises(IsoscopeError, match="more than 64 deep"):
        load_model(resolve_model(str(model({"normalizer": rules}))), device="cpu")


@pytest.mark.parametrize(
    "made",
    [
        normalizers.Replace("a", "bcd"),
        normalizers.Replace("ab", "x"),
        normalizers.Sequence([normalizers.Replace("a", "aa"), normalizers.Replace("aa", "aaaaaa"), normalizers.Lowercase()]),
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        normalizers.Sequence([normalizers.Replace("a", "ﷺ"), normalizers.NFKD()]),
        normalizers.Sequence([normalizers.Replace("a", "İ"), normalizers.Lowercase()]),
        normalizers.Sequence([normalizers.Replace("a", "漢"), normalizers.BertNormalizer()]),
        normalizers.Sequence([normalizers.Replace("a", "ΐ"), normalizers.NFD()]),
    ],
    ids=str,
)
def test_no_text_grows_by_more_than_the_computed_bound(made):
    told = normalizer_growth(rules_of(made))
    for text in ("a", "ab" * 20, "a " * 20, "x" * 40, "aa a" * 9):
        assert len(made.normalize_str(text).encode()) <= told * len(text.encode()) + 3


@pytest.mark.parametrize(
    ("pattern", "content", "told"),
    [
        (" {2,}", "▁", 1.5),
        (r"\s+", " ", 1),
        (r"\p{L}", "xy", 3),
        ("[a&&[a]]", "xy", 3),
        ("a*", "xy", 3),
        ("(?=a)", "x", 2),
        ("a{3}|bb", "xxxx", 2),
    ],
)
def test_expressions_count_by_their_shortest_match(pattern, content, told):
    """What Python cannot read, or reads in another way, may match nothing."""
    assert normalizer_growth(replace(pattern, content, "Regex")) == told


def test_rules_of_real_tokenizers_are_far_from_the_limit():
    llama = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    albert = normalizers.Sequence(
        [
            normalizers.Replace("``", '"'),
            normalizers.Replace("''", '"'),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
        ]
    )
    assert normalizer_growth(rules_of(llama)) == 12
    assert normalizer_growth(rules_of(albert)) == 1
    assert pre_tokenizer_growth(rules_of(pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.ByteLevel()]))) == 1
    assert (
        template_growth(rules_of(processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]))) == 1
    )
    assert normalizer_growth(None) == pre_tokenizer_growth(None) == template_growth(None) == 1


def test_the_table_of_unicode_that_sentencepiece_writes_leaves_room_for_replacements():
    """T5, XLM-R and ALBERT have it; one of its characters becomes 33 bytes."""
    written = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(["some words are here", "and there are more words to read"] * 20),
        model_writer=written,
        vocab_size=40,
        model_type="char",
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(written.getvalue())
    table = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    t5 = normalizers.Sequence([table, normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), "▁")])
    assert normalizer_growth(rules_of(t5)) == 33 * 1.5 < MAX_GROWTH
    assert len(table.normalize_str("ﷺ").encode()) == 33
