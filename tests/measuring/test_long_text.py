"""Of a text far longer than what is needed, the first tokens are those of the whole, and memory is taken for little more than these."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from isoscope.core.errors import IsoscopeError
from isoscope.measuring import long_text
from isoscope.measuring.long_text import enough_pieces
from isoscope.models.loading.readers.text import encode_text
from tests.hostile.confined import confined

KINDS = ("bytes", "unigram", "whole", "pieces", "marks")
SEQ_LEN = 128
BEGINNING = 1 << 12
"""A sixteenth of what it is elsewhere: the same steps with less text."""


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(long_text, "BEGINNING", BEGINNING)


@pytest.fixture(scope="module")
def words(texts):
    """The text of the tests, again and again: ten times what is tokenised in any case."""
    text = texts.read_text("utf-8").replace("\n", " ")
    return (text * (10 * BEGINNING // len(text) + 1))[: 10 * BEGINNING]


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request, words):
    """One of every kind that models come with, trained on the text."""
    special = ["[UNK]", "[CLS]", "[SEP]"]
    sample = [words[i : i + 2000] for i in range(0, 40_000, 2000)]
    if request.param == "bytes":
        found = Tokenizer(models.BPE())
        found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=special)
    elif request.param in ("unigram", "whole"):  # the second takes the whole text for one word
        found = Tokenizer(models.Unigram())
        found.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" ", "▁")])
        if request.param == "unigram":
            found.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=400, unk_token="[UNK]", special_tokens=special)
    elif request.param == "pieces":
        found = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        found.normalizer, found.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=special)
    else:
        found = Tokenizer(models.BPE(unk_token="[UNK]"))
        found.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special)
    found.train_from_iterator(sample, trainer)
    found.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return PreTrainedTokenizerFast(tokenizer_object=found, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


@pytest.mark.parametrize("needed", [1, 1000])
@pytest.mark.parametrize("text", ["words", "one letter", "one word", "spaces first", "marks"])
def test_the_first_tokens_are_those_of_the_whole_text(tokenizer, words, text, needed):
    content = {
        "words": words,
        "one letter": "a" * (5 * BEGINNING + 3),
        "one word": words[: 5 * BEGINNING].replace(" ", ""),
        "spaces first": " " * 3 * BEGINNING + words,
        "marks": ("e\u0301 ﬁ \U0001f600 漢字 " * BEGINNING)[: 6 * BEGINNING],
    }[text]
    whole = encode_text(tokenizer, content, SEQ_LEN)
    found = enough_pieces(lambda text: encode_text(tokenizer, text, SEQ_LEN), content, needed)
    assert sum(piece.size for piece in found) >= min(needed, sum(piece.size for piece in whole))
    for one, other in zip(found, whole, strict=False):
        assert np.array_equal(one.data, other.data)
        assert np.array_equal(one.special, other.special)
        assert (one.size, one.start) == (other.size, other.start)


def test_a_short_text_and_one_of_which_all_is_needed_are_tokenised_once_and_whole(words):
    seen = []
    for content, needed in [(words[:BEGINNING], 1), (words, None), (words[:100], None), (np.zeros(3), 1)]:
        enough_pieces(lambda text: seen.append(text) or [], content, needed)
        assert len(seen) == 1
        assert seen.pop() is content or len(content) == BEGINNING


def test_a_text_is_refused_that_would_take_more_memory_than_there_is(words, monkeypatch):
    monkeypatch.setattr(long_text, "TOKENISING", 1 << 40)
    with pytest.raises(IsoscopeError, match=r"Tokenising a text of 40,960 characters would take .* divide it into documents"):
        enough_pieces(lambda text: [], words, None)


def test_a_paragraph_of_20_megabytes_takes_no_more_memory_than_its_first_tokens(small_models, words, tmp_path):
    """Tokenised whole it takes gigabytes. The numbers are those of its beginning alone."""
    options = {"max_tokens": 300, "sample": 0, "threads": 1, "quiet": True}
    calls = []
    for name, size in (("long", 20_000_000), ("short", 10_000)):
        path = tmp_path / f"{name}.txt"
        path.write_text((words * (size // len(words) + 1))[:size], "utf-8")
        made = f"isoscope.measure({str(small_models('bert'))!r}, {str(path)!r}, {str(tmp_path / name)!r}, **{options!r})"
        calls.append(f"{made}.table('mean_cosine').value.tolist()")
    said = confined(*calls, setup="import isoscope, torch, transformers; torch.set_num_threads(1)", megabytes=1200)
    assert said[0].startswith("[0.")
    assert said[0] == said[1]
