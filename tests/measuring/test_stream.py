"""A stream divides, limits and batches items; of a long text the first tokens are those of the whole, in little more memory."""

import dataclasses

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from isoscope.core.errors import IsoscopeError
from isoscope.core.source import Item
from isoscope.measuring import stream
from isoscope.measuring.stream import enough_pieces
from isoscope.models.loading.chunk import Chunk
from isoscope.models.loading.readers.text import encode_text
from tests.hostile.confined import confined

KINDS = ("bytes", "unigram", "whole", "pieces", "marks")
SEQ_LEN = 128
BEGINNING = 1 << 12
"""A sixteenth of what it is elsewhere: the same steps with less text."""


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(stream, "BEGINNING", BEGINNING)


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
    monkeypatch.setattr(stream, "TOKENISING", 1 << 40)
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


class Items:
    """A source whose items are arrays of these lengths, to be cut into chunks of at most 4."""

    def __init__(self, *sizes):
        self.sizes = sizes

    def items(self):
        for i, size in enumerate(self.sizes):
            yield Item(f"item {i}", np.arange(size))


def cut(content):
    return [Chunk(content[i : i + 4], len(content[i : i + 4]), i) for i in range(0, len(content), 4)]


def test_shards_divide_the_items_and_share_their_limits():
    """Of items of 5, 3, 9, 2 and 6 tokens, 14 tokens are reached in the third one, whose last chunk nobody reads."""
    sizes = []
    for i in (0, 1):
        shard = stream.Stream(Items(5, 3, 9, 2, 6), cut, 14, (i, 2))
        sizes.append([(name, [chunk.size for chunk in chunks]) for name, chunks in shard.items()])
        assert shard.cursor == stream.Cursor(3, 16, 2 - i, (13, 3)[i])
    assert sizes == [[("item 0", [4, 1]), ("item 2", [4, 4])], [("item 1", [3])]]


def test_a_stream_continues_from_its_cursor():
    whole = stream.Stream(Items(*range(1, 9)), cut, None)
    first = next(whole.windows(6, by_sequence=False))
    rest = stream.Stream(Items(*range(1, 9)), cut, None, cursor=dataclasses.replace(whole.cursor))
    joined = first + [sequence for window in rest.windows(6, by_sequence=False) for sequence in window]
    again = [sequence for window in stream.Stream(Items(*range(1, 9)), cut, None).windows(100, by_sequence=False) for sequence in window]
    assert [(s.item, s.piece.start, s.piece.size) for s in joined] == [(s.item, s.piece.start, s.piece.size) for s in again]
    assert sum(s.piece.size for s in first) == 6  # items of 1, 2 and 3 tokens


def test_batches_go_from_long_to_short_and_padding_counts():
    (window,) = stream.Stream(Items(4, 1, 3, 2, 4), cut, None).windows(100, by_sequence=False)
    batches = list(stream.make_batches(window, 8, pads=True))
    assert [[s.piece.size for s in batch] for batch in batches] == [[4, 4], [3, 2], [1]]
    alike = list(stream.make_batches(window, 8, pads=False))
    assert [[s.piece.size for s in batch] for batch in alike] == [[4, 4], [3], [2], [1]]


def test_the_last_part_of_each_unit_is_marked_once():
    (window,) = stream.Stream(Items(9, 2), cut, None).windows(100, by_sequence=False)
    batches = list(stream.make_batches(window, 8, pads=True))
    assert [[s.piece.size for s in batch] for batch in batches] == [[4, 4], [2, 1]]
    assert [flags.tolist() for flags in stream.mark_last_parts(batches)] == [[False, False], [True, True]]


def test_few_items_are_counted_within_the_limits():
    def few(sizes, tokens=None, items=None):
        return stream.Stream(Items(*sizes), cut, tokens, max_items=items).has_few_items()

    assert few([1] * 29)
    assert not few([1] * 30)
    assert few([1] * 30, items=29)
    assert few([2] * 100, tokens=40)
    assert not few([2] * 100, tokens=60)


def test_bins_divide_occurrences_and_leave_out_special_tokens():
    """Token i occurs 2, 2, 4 and 8 times: the rarest two share the first quarter, and the middle of the last half is 3/4."""
    ids = np.repeat([10, 11, 12, 13, 99], [2, 2, 4, 8, 50])
    chunk = Chunk(ids, len(ids), special=ids == 99)
    assert stream.frequency_bins(stream.Stream(Items(1), lambda _: [chunk], None)) == {10: 0, 11: 0, 12: 1, 13: 3}
