"""How many tokens a source has, guessed within a factor of two from its files and first items."""

import json
from pathlib import Path

import numpy as np
import pytest

from isoscope.measuring.source_size import guess_tokens
from isoscope.models.naming.model_name import ModelReference
from isoscope.sources import open_source


@pytest.fixture
def word_model(tmp_path):
    return reference_with(tmp_path / "words", 30_000)


def reference_with(folder, vocabulary):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"vocab_size": vocabulary}), "utf-8")
    return ModelReference("m", "m", folder, None, False, "r", "w")


def test_text_has_a_token_for_every_four_bytes_and_symbols_one_for_each(word_model, tmp_path):
    """A hundred paragraphs of 400 bytes, which two line ends part."""
    (tmp_path / "a.txt").write_text("\n\n".join(["word " * 79 + "word."] * 100), "utf-8")
    source = open_source(str(tmp_path / "a.txt"), None, "text")
    assert guess_tokens(source, word_model) == pytest.approx(100 * 400 / 4, rel=0.02)
    assert guess_tokens(source, reference_with(tmp_path / "bytes", 384)) == pytest.approx(100 * 400, rel=0.02)
    assert guess_tokens(source, word_model, max_items=10) == 10 * 400 / 4
    assert guess_tokens(source, word_model, max_items=10, max_tokens=600) == 600
    assert guess_tokens(source, word_model, max_tokens=60_000) < 11_000, "there is not as much text as was allowed"


def test_the_guess_for_the_embedded_text_is_within_a_factor_of_two(word_model):
    from tokenizers import Tokenizer

    tokenizer = Path(__file__).parents[2] / ".cache" / "models" / "all-MiniLM-L6-v2" / "tokenizer.json"
    if not tokenizer.is_file():
        pytest.skip("isoscope fetch all-minilm-l6-v2 gets the tokenizer")
    source = open_source("embedded", None, "text")
    read = Tokenizer.from_file(str(tokenizer))
    read.no_truncation()
    read.no_padding()
    tokens = sum(len(encoded.ids) for encoded in read.encode_batch([item.content for item in source.items()]))
    assert tokens / 2 < guess_tokens(source, word_model) < 2 * tokens


def test_images_have_patches_and_speech_has_frames(word_model, tmp_path):
    import soundfile
    from PIL import Image

    for i in range(5):
        Image.new("RGB", (20, 20), (i, 0, 0)).save(tmp_path / f"{i}.png")
        soundfile.write(tmp_path / f"{i}.wav", np.zeros(32_000, np.float32), 16_000)
    images, speech = (open_source(str(tmp_path), None, modality) for modality in ("images", "speech"))
    assert guess_tokens(images, word_model) == 5 * 256
    assert guess_tokens(images, word_model, max_tokens=2) == 2 * 256, "of images --max-tokens counts the images"
    assert guess_tokens(speech, word_model) == 5 * 2 * 50
    assert guess_tokens(speech, word_model, max_items=3) == 3 * 2 * 50


def test_a_source_without_files_has_as_many_tokens_as_are_asked_for(word_model):
    class Stream:
        modality, name = "text", "stream"

    assert guess_tokens(Stream(), word_model) is None
    assert guess_tokens(Stream(), word_model, max_tokens=500) == 500
