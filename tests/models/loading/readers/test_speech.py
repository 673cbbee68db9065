"""Clips as windows: every sample that gives a frame is read once, and a window has the frames that the model makes of it."""

import math

import numpy as np
import pytest
import torch

from isoscope.core.errors import IsoscopeError
from isoscope.core.source import Clip
from isoscope.models.loading.load import load_model
from isoscope.models.loading.readers.speech import SAMPLES_PER_FRAME
from isoscope.models.naming.model_name import resolve_model
from tests.models.zoo import ZOO, build

BY_TITLE = {small.title: small for small in ZOO}
RATE = 16_000
STRIDE = 320
"""Samples per frame of the small wav2vec 2.0: strides of 20 and 16; its first frame needs 10 + 7 · 20 = 150 samples."""


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    models = {}

    def load(title):
        if title not in models:
            folder = build(BY_TITLE[title], tmp_path_factory.mktemp("models") / "model")
            models[title] = load_model(resolve_model(str(folder)), device="cpu")
        return models[title]

    return load


def clip(samples, rate=RATE):
    return Clip(np.random.default_rng(samples).standard_normal(samples).astype(np.float32) / 10, rate)


@pytest.mark.parametrize(("samples", "frames"), [(149, []), (150, [1]), (469, [1]), (470, [2]), (2 * RATE, [100])])
def test_a_clip_has_the_frames_that_its_convolutions_give(model_of, samples, frames):
    model = model_of("wav2vec 2.0")
    chunks = model.family.reader(model, None).chunks(clip(samples))
    assert [chunk.size for chunk in chunks] == frames
    assert frames == ([] if samples < 150 else [(samples - 150) // STRIDE + 1])


def test_windows_follow_each_other_and_none_exceeds_the_limit(model_of):
    model = model_of("wav2vec 2.0")
    reader = model.family.reader(model, 20)
    content = clip(RATE)
    chunks = reader.chunks(content)
    assert max(chunk.size for chunk in chunks) == 20
    assert np.array_equal(np.concatenate([chunk.data for chunk in chunks]), content.samples[: sum(len(chunk.data) for chunk in chunks)])
    assert [chunk.start for chunk in chunks] == np.cumsum([0, *(chunk.size for chunk in chunks[:-1])]).tolist()
    with torch.inference_mode():
        states = model.base(**reader.feed(chunks[:2]).arguments).last_hidden_state
    assert states.shape[1] == chunks[0].size


def test_windows_of_different_lengths_are_not_fed_together(model_of):
    model = model_of("wav2vec 2.0")
    reader = model.family.reader(model, None)
    chunks = [*reader.chunks(clip(RATE)), *reader.chunks(clip(2 * RATE))]
    with pytest.raises(IsoscopeError, match="Windows of different lengths"):
        reader.feed(chunks)


def test_whisper_counts_the_frames_of_the_clip_and_not_of_its_padding(model_of):
    model = model_of("Whisper")
    reader = model.family.reader(model, None)
    samples = reader.window + 5 * SAMPLES_PER_FRAME + 1
    chunks = reader.chunks(clip(samples))
    assert [chunk.size for chunk in chunks] == [reader.seq_len, math.ceil((5 * SAMPLES_PER_FRAME + 1) / SAMPLES_PER_FRAME)]
    assert [chunk.start for chunk in chunks] == [0, reader.seq_len]
    assert {chunk.batch_cost for chunk in chunks} == {reader.seq_len}
    fed = reader.feed(chunks)
    assert [len(positions.special) for positions in fed.positions("encoder", reader.seq_len)] == [reader.seq_len, 6]


def test_a_transcript_does_not_depend_on_the_other_windows_of_a_batch(model_of):
    model = model_of("Whisper")
    reader = model.family.reader(model, None)
    chunks = [reader.chunks(clip(samples))[0] for samples in (4000, 9000, 2000)]
    together = [positions.ids.tolist() for positions in reader.feed(chunks).positions("decoder", 1)]
    assert together == [reader.feed([chunk]).positions("decoder", 1)[0].ids.tolist() for chunk in chunks]
    assert all(tuple(ids[: len(reader.prompt)]) == reader.prompt for ids in together)
    special = [positions.special.tolist() for positions in reader.feed(chunks).positions("decoder", 1)]
    assert all(all(marks[: len(reader.prompt)]) for marks in special)
