"""Whisper: spectrograms of half a minute in, tokens out. The decoder is fed what the model itself hears, token by token."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from isoscope.core.source import Clip
from isoscope.models.family import Family, Stack
from isoscope.models.model_errors import CANNOT_RUN, model_errors_as_user_errors, whole_number
from isoscope.models.piece import Fed, Piece, Positions
from isoscope.sources.speech import resample

if TYPE_CHECKING:
    from isoscope.models.load import LoadedModel

SAMPLES_A_FRAME = 320
MOST_TOKENS = 224
"""The longest transcript of a window that the decoder is fed."""
PROMPTS = {51864: (50257, 50362), 51865: (50258, 50259, 50359, 50363), 51866: (50258, 50259, 50360, 50364)}
"""By the size of the vocabulary: start of transcript, language and task where there are several, no timestamps."""


def _extractor(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    from transformers import WhisperFeatureExtractor

    if (Path(folder) / "preprocessor_config.json").is_file():
        return WhisperFeatureExtractor.from_pretrained(folder, **source)
    return WhisperFeatureExtractor(feature_size=config.num_mel_bins)


class WhisperReader:
    """Windows padded with silence to the model's half minute, as it was trained; frames of padding are not counted."""

    unit = "frames"
    pads = True

    def __init__(self, model: LoadedModel, seq_len: int | None) -> None:
        self.model, config = model, model.config
        self.rate = whole_number(model.processor.sampling_rate, "sampling_rate", model.reference.spec)
        self.seq_len = whole_number(config.max_source_positions, "max_source_positions", model.reference.spec)
        self.window = self.seq_len * SAMPLES_A_FRAME
        self.prompt = PROMPTS.get(config.vocab_size, (config.decoder_start_token_id,))
        self.special_tokens = f"decoder: {' '.join(map(str, self.prompt))} …"

    def pieces(self, content: Clip) -> list[Piece]:
        """Windows of at most half a minute."""
        wave = resample(content.samples, content.rate, self.rate)
        windows = [wave[i : i + self.window] for i in range(0, len(wave), self.window)]
        return [
            Piece(
                np.asarray(window, dtype=np.float32),
                math.ceil(len(window) / SAMPLES_A_FRAME),
                start=number * self.seq_len,
                room=self.seq_len,
            )
            for number, window in enumerate(windows)
        ]

    def probe(self, count: int, size: int) -> list[Piece]:
        """Windows of noise."""
        noise = np.random.default_rng(0).standard_normal(self.window).astype(np.float32) / 10
        return [Piece(noise, self.seq_len) for _ in range(count)]

    def feed(self, pieces: list[Piece]) -> Fed:
        """Spectrograms, and for the decoder the transcript that the model gives each window."""
        frames = 2 * self.seq_len
        with model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            prepared = self.model.processor(
                [piece.data for piece in pieces], sampling_rate=self.rate, return_tensors="pt", padding="max_length", max_length=self.window
            )
            spectra = prepared["input_features"]
        features = spectra[..., :frames].to(self.model.device, self.model.base.dtype)
        # One window at a time, so that what is heard does not depend on what else is in the batch.
        heard = [self._transcript(features[row : row + 1]) for row in range(len(pieces))]
        width = max(len(ids) for ids in heard)
        padded = torch.full((len(heard), width), int(self.model.config.pad_token_id or 0), dtype=torch.long)
        for row, ids in enumerate(heard):
            padded[row, : len(ids)] = torch.from_numpy(ids)

        def positions(stack: str, t: int) -> list[Positions]:
            if stack == "encoder":
                return [Positions(np.zeros(piece.size, dtype=bool), start=piece.start) for piece in pieces]
            return [Positions(self._special(ids), ids, piece.start) for ids, piece in zip(heard, pieces, strict=True)]

        return Fed({"input_features": features, "decoder_input_ids": padded.to(self.model.device), "use_cache": False}, positions)

    def _special(self, ids: np.ndarray) -> np.ndarray:
        config = self.model.config
        controls = {*self.prompt, *_tokens(config.decoder_start_token_id), *_tokens(config.eos_token_id), *_tokens(config.pad_token_id)}
        large = ids >= self.prompt[0] if config.vocab_size in PROMPTS else np.zeros(len(ids), dtype=bool)
        return large | np.isin(ids, list(controls))

    def _transcript(self, features: Tensor) -> np.ndarray:
        """The prompt and the likeliest token after it, again and again, until the model ends."""
        ids, head = list(self.prompt), self.model.output_embedding
        if head is None:  # weights without the output table can hear but not say
            return np.array(ids, dtype=np.int64)
        limit = min(MOST_TOKENS, self.model.config.max_target_positions) - len(ids)
        with torch.inference_mode(), model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            encoded, past = self.model.base.encoder(features), None
            for _ in range(limit):
                step = torch.tensor([ids if past is None else ids[-1:]], device=features.device)
                out = self.model.base(encoder_outputs=encoded, decoder_input_ids=step, past_key_values=past, use_cache=True)
                past = out.past_key_values
                token = int(head(out.last_hidden_state[0, -1]).argmax())
                if token in _tokens(self.model.config.eos_token_id):
                    break
                ids.append(token)
        return np.array(ids, dtype=np.int64)


def _tokens(said: Any) -> list[int]:
    """The tokens of a kind that a configuration names: none, one or several.

    >>> _tokens(None), _tokens(7), _tokens([7, 8])
    ([], [7], [7, 8])
    """
    return [int(token) for token in (said if isinstance(said, list | tuple) else [said]) if token is not None]


whisper = Family(
    name="whisper",
    modality="speech",
    about="speech recognisers: encoder and decoder",
    covers={"Whisper": "Whisper tiny.en"},
    matches=lambda config: 2 * (config.model_type == "whisper"),
    stacks=lambda model: {"encoder": Stack(model.encoder, "layers.*"), "decoder": Stack(model.decoder, "layers.*")},
    processor=_extractor,
    reader=WhisperReader,
    loads=("folder", "hub", ".pt"),
)
