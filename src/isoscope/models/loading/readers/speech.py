"""Speech: clips at the model's own rate, cut into windows. A decoder gets the transcript that the model itself gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.core.source import Clip
from isoscope.models.loading.chunk import Chunk, ModelInput, Positions, pad_right, plain_positions
from isoscope.models.loading.family import LoadedModel
from isoscope.models.loading.file_limits import require_count
from isoscope.models.model_errors import CANNOT_RUN, model_errors_as_user_errors
from isoscope.sources.speech import resample

SECONDS = 30
"""The longest window; a longer clip is cut."""
RATE = 16_000

SAMPLES_PER_FRAME = 320
MAX_TOKENS = 224
"""The longest transcript of a window that the decoder is fed."""
PROMPTS = {51864: (50257, 50362), 51865: (50258, 50259, 50359, 50363), 51866: (50258, 50259, 50360, 50364)}
"""By vocabulary size: start of transcript, language and task (multilingual models only), no timestamps."""


def load_feature_extractor(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    """Load the feature extractor next to the weights; without one, use its published defaults."""
    from transformers import AutoFeatureExtractor, Wav2Vec2FeatureExtractor

    if (Path(folder) / "preprocessor_config.json").is_file():
        return AutoFeatureExtractor.from_pretrained(folder, **source)
    return Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=False)


class WaveReader:
    """Windows of samples for models that read the wave itself.

    Windows of different lengths never share a batch: in these models padding would reach the measured states, through group norms and
    positional convolutions.
    """

    unit = "frames"
    pads = False
    special_tokens = ""

    def __init__(self, model: LoadedModel, seq_len: int | None) -> None:
        self.model = model
        self.rate = require_count(getattr(model.processor, "sampling_rate", None) or RATE, "sampling_rate", model.reference.spec)
        self.longest = SECONDS * self.rate
        self.seq_len = seq_len or self._count_frames(self.longest)
        if seq_len is not None:
            self.longest = max(n for n in self._window_lengths() if self._count_frames(n) <= seq_len)

    def _window_lengths(self) -> range:
        """Lengths in samples from the shortest window to the longest, four steps per frame."""
        step = max(self.longest // max(self._count_frames(self.longest), 1), 1)
        return range(self._shortest_window(), self.longest + 1, max(step // 4, 1))

    def _count_frames(self, samples: int) -> int:
        with model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            frames = self.model.base._get_feat_extract_output_lengths(torch.tensor(samples))
        return int(frames)

    def _shortest_window(self) -> int:
        """The fewest samples that give a frame, by bisection."""
        low, high = 0, self.rate
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._count_frames(middle) >= 1 else (middle, high)
        return high

    def chunks(self, content: Clip) -> list[Chunk]:
        """Cut a clip into windows of at most half a minute; an end too short for a frame is left out."""
        wave = np.asarray(resample(content.samples, content.rate, self.rate), dtype=np.float32)
        chunks, start = [], 0
        for i in range(0, len(wave), self.longest):
            window = wave[i : i + self.longest]
            frames = self._count_frames(len(window)) if len(window) >= self._shortest_window() else 0
            if frames < 1:
                break
            chunks.append(Chunk(window, frames, start))
            start += frames
        return chunks

    def probe(self, count: int, size: int) -> list[Chunk]:
        """Windows of noise."""
        noise = np.random.default_rng(0).standard_normal(self.longest if size >= self.seq_len else self.rate).astype(np.float32)
        return [Chunk(noise, self._count_frames(len(noise))) for _ in range(count)]

    def feed(self, chunks: list[Chunk]) -> ModelInput:
        """Samples as the feature extractor leaves them; every frame counts."""
        if len({len(chunk.data) for chunk in chunks}) > 1:
            raise IsoscopeError("Windows of different lengths cannot share a batch.")
        with model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            prepared = self.model.processor([chunk.data for chunk in chunks], sampling_rate=self.rate, return_tensors="pt")
            samples = prepared["input_values"]
        return ModelInput({"input_values": samples.to(self.model.device, self.model.base.dtype)}, plain_positions(chunks))


class WhisperReader:
    """Windows padded with silence to the model's half minute, as in its training; frames of padding do not count."""

    unit = "frames"
    pads = True

    def __init__(self, model: LoadedModel, seq_len: int | None) -> None:
        self.model, config = model, model.config
        self.rate = require_count(model.processor.sampling_rate, "sampling_rate", model.reference.spec)
        self.seq_len = require_count(config.max_source_positions, "max_source_positions", model.reference.spec)
        self.window = self.seq_len * SAMPLES_PER_FRAME
        self.prompt = PROMPTS.get(config.vocab_size, (config.decoder_start_token_id,))
        self.special_tokens = f"decoder: {' '.join(map(str, self.prompt))} …"

    def chunks(self, content: Clip) -> list[Chunk]:
        """Cut a clip into windows of at most half a minute."""
        wave = np.asarray(resample(content.samples, content.rate, self.rate), dtype=np.float32)
        windows = [wave[i : i + self.window] for i in range(0, len(wave), self.window)]
        return [
            Chunk(window, math.ceil(len(window) / SAMPLES_PER_FRAME), start=i * self.seq_len, padded_size=self.seq_len)
            for i, window in enumerate(windows)
        ]

    def probe(self, count: int, size: int) -> list[Chunk]:
        """Windows of noise."""
        noise = np.random.default_rng(0).standard_normal(self.window).astype(np.float32) / 10
        return [Chunk(noise, self.seq_len) for _ in range(count)]

    def feed(self, chunks: list[Chunk]) -> ModelInput:
        """Spectrograms, and for the decoder the transcript that the model gives each window."""
        with model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            prepared = self.model.processor(
                [chunk.data for chunk in chunks], sampling_rate=self.rate, return_tensors="pt", padding="max_length", max_length=self.window
            )
            spectra = prepared["input_features"]
        # The extractor makes two frames of spectrogram for each position of the encoder.
        features = spectra[..., : 2 * self.seq_len].to(self.model.device, self.model.base.dtype)
        # One window at a time, so that a transcript does not depend on the other windows of the batch.
        longest = self.model.config.max_target_positions
        transcripts = [transcribe(self.model, features[i : i + 1], self.prompt, longest) for i in range(len(chunks))]
        ids, _ = pad_right(transcripts, int(self.model.config.pad_token_id or 0), self.model.device)

        def positions(stack: str, t: int) -> list[Positions]:
            if stack == "encoder":
                return [Positions(chunk.special_mask, start=chunk.start) for chunk in chunks]
            return [Positions(self._special_mask(ids), ids, chunk.start) for ids, chunk in zip(transcripts, chunks, strict=True)]

        return ModelInput({"input_features": features, "decoder_input_ids": ids, "use_cache": False}, positions)

    def _special_mask(self, ids: np.ndarray) -> np.ndarray:
        config = self.model.config
        controls = {*self.prompt, *(token for name in ("decoder_start", "eos", "pad") for token in _token_ids(config, name))}
        # In the published vocabularies every id from the start of transcript on is a control token.
        large = ids >= self.prompt[0] if config.vocab_size in PROMPTS else np.zeros(len(ids), dtype=bool)
        return large | np.isin(ids, list(controls))


class MoonshineReader(WaveReader):
    """Windows of samples; the decoder gets the transcript that the model itself gives a window."""

    def __init__(self, model: LoadedModel, seq_len: int | None) -> None:
        super().__init__(model, seq_len)
        self.prompt = _token_ids(model.config, "decoder_start")
        self.special_tokens = f"decoder: {' '.join(map(str, self.prompt))} …"

    def feed(self, chunks: list[Chunk]) -> ModelInput:
        """Samples, and the transcript of each window."""
        waves = super().feed(chunks)
        samples = waves.arguments["input_values"]
        room = require_count(self.model.config.max_position_embeddings, "max_position_embeddings", self.model.reference.spec)
        transcripts = [transcribe(self.model, samples[i : i + 1], self.prompt, room) for i in range(len(chunks))]
        ids, _ = pad_right(transcripts, int(self.model.config.pad_token_id or 0), self.model.device)
        controls = [token for name in ("decoder_start", "bos", "eos") for token in _token_ids(self.model.config, name)]

        def positions(stack: str, t: int) -> list[Positions]:
            if stack == "encoder":
                return waves.positions(stack, t)
            return [Positions(np.isin(ids, controls), ids, chunk.start) for ids, chunk in zip(transcripts, chunks, strict=True)]

        return ModelInput(waves.arguments | {"decoder_input_ids": ids, "use_cache": False}, positions)


def transcribe(model: LoadedModel, inputs: Tensor, prompt: Sequence[int], longest: int) -> np.ndarray:
    """Greedy decoding of one window: the prompt, and the likeliest next token until the model ends or `longest` tokens are there."""
    ids, head = list(prompt), model.output_embedding
    if head is None:  # without an output table nothing can be decoded
        return np.array(ids, dtype=np.int64)
    with torch.inference_mode(), model_errors_as_user_errors(model.reference, CANNOT_RUN):
        encoded, past = model.base.encoder(inputs), None
        while len(ids) < min(MAX_TOKENS, longest):
            step = torch.tensor([ids if past is None else ids[-1:]], device=inputs.device)
            out = model.base(encoder_outputs=encoded, decoder_input_ids=step, past_key_values=past, use_cache=True)
            past = out.past_key_values
            token = int(head(out.last_hidden_state[0, -1]).argmax())
            if token in _token_ids(model.config, "eos"):
                break
            ids.append(token)
    return np.array(ids, dtype=np.int64)


def _token_ids(config: Any, name: str) -> list[int]:
    """The tokens of a kind that a configuration names: none, one or several.

    >>> from types import SimpleNamespace
    >>> config = SimpleNamespace(eos_token_id=7, pad_token_id=None)
    >>> _token_ids(config, "eos"), _token_ids(config, "pad")
    ([7], [])
    """
    value = getattr(config, f"{name}_token_id")
    return [int(token) for token in (value if isinstance(value, list | tuple) else [value]) if token is not None]
