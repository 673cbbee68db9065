"""Texts as sequences of tokens: nothing is lost or read twice, and every model is fed as it was trained."""

import numpy as np
import pytest
import torch

from isoscope.core.errors import IsoscopeError
from isoscope.models.loading.load import load_model
from isoscope.models.loading.readers.text import encode_text, max_sequence_length
from isoscope.models.naming.model_name import resolve_model
from tests.models.zoo import ZOO, build

BY_TITLE = {small.title: small for small in ZOO}
TEXT = "the of and to in a " * 30


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    models = {}

    def load(title):
        if title not in models:
            folder = build(BY_TITLE[title], tmp_path_factory.mktemp("models") / "model")
            models[title] = load_model(resolve_model(str(folder)), device="cpu")
        return models[title]

    return load


@pytest.mark.parametrize("title", ["BERT", "GPT-2", "T5", "ByT5", "CANINE-s"])
def test_sequences_joined_without_special_tokens_are_the_text(title, model_of):
    model = model_of(title)
    reader = model.family.reader(model, 16)
    chunks = reader.chunks(TEXT)
    assert all(len(chunk.data) == chunk.size <= 16 for chunk in chunks)
    plain = np.concatenate([chunk.data[~chunk.special] for chunk in chunks]).tolist()
    assert plain == model.processor(TEXT, add_special_tokens=False)["input_ids"]
    assert [chunk.start for chunk in chunks] == np.cumsum([0, *(chunk.size for chunk in chunks[:-1])]).tolist()
    assert [chunk.data.tolist() for chunk in encode_text(model.processor, TEXT, 16)] == [chunk.data.tolist() for chunk in chunks]


def test_a_special_token_written_in_the_text_is_special(model_of):
    model = model_of("BERT")
    (chunk,) = model.family.reader(model, None).chunks(f"the {model.processor.sep_token} of")
    separators = chunk.data == model.processor.sep_token_id
    assert separators.sum() == 2
    assert chunk.special[separators].all()


def test_roberta_s_table_has_rows_that_no_token_uses(model_of):
    """70 rows, of which those up to the padding's own (0) are not positions."""
    for title, longest in (("RoBERTa", 69), ("BERT", 64)):
        model = model_of(title)
        own, model.processor.model_max_length = model.processor.model_max_length, 10**30  # as many tokenizers give none
        assert max_sequence_length(model) == longest
        model.processor.model_max_length = own


def test_longer_sequences_than_the_model_takes_are_refused(model_of):
    model = model_of("BERT")
    with pytest.raises(IsoscopeError, match="takes at most 64 tokens per sequence; --seq-len was 65"):
        model.family.reader(model, 65)
    with pytest.raises(IsoscopeError, match="leaves no room next to 2 special ones"):
        model.family.reader(model, 2).chunks("the")


def test_a_decoder_reads_the_same_tokens_after_its_start_token(model_of):
    model = model_of("BART")
    reader = model.family.reader(model, None)
    chunks = reader.chunks("the of and")
    fed = reader.feed(chunks)
    start = model.config.decoder_start_token_id
    assert fed.arguments["decoder_input_ids"].tolist() == [[start, *chunks[0].data[:-1].tolist()]]
    (encoder,), (decoder,) = fed.positions("encoder", chunks[0].size), fed.positions("decoder", chunks[0].size)
    assert encoder.ids.tolist() == chunks[0].data.tolist()
    assert decoder.ids.tolist() == [start, *chunks[0].data[:-1].tolist()]
    assert decoder.special.tolist() == [True, *chunks[0].special[:-1].tolist()]


def test_padding_changes_no_state(model_of):
    model = model_of("GPT-2")
    reader = model.family.reader(model, None)
    chunks = [reader.chunks(text)[0] for text in ("the of and to in", "a the")]
    with torch.inference_mode():
        together = model.base(**reader.feed(chunks).arguments).last_hidden_state
        alone = model.base(**reader.feed(chunks[1:]).arguments).last_hidden_state
    assert torch.allclose(together[1, : chunks[1].size], alone[0], atol=1e-5)
    assert "past_key_values" not in reader.feed(chunks).arguments
    assert reader.feed(chunks).arguments["use_cache"] is False
