"""Networks of frames of speech that `isoscope train` made."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from isoscope.core.source import Clip
from isoscope.models.family import RANDOM, Family, Stack
from isoscope.models.load import LoadedModel
from isoscope.models.piece import Fed, Piece, Positions
from isoscope.sources.speech import FRAME_RATE, mel_frames, resample


class FrameReader:
    """Windows of frames, each band scaled as in training. Windows of different lengths do not share a batch."""

    unit = "frames"
    pads = False
    special_tokens = ""

    def __init__(self, model: LoadedModel, seq_len: int | None) -> None:
        self.model, config = model, model.config
        self.seq_len = min(seq_len or config.max_position_embeddings, config.max_position_embeddings)
        self.mean, self.sd = (np.asarray(part, np.float32) for part in (config.band_mean, config.band_sd))

    def pieces(self, content: Clip) -> list[Piece]:
        """Windows of at most `seq_len` frames."""
        found = (mel_frames(resample(content.samples, content.rate, FRAME_RATE), self.model.config.bands) - self.mean) / self.sd
        cut = ((at, found[at : at + self.seq_len]) for at in range(0, len(found), self.seq_len))
        return [Piece(window, len(window), at) for at, window in cut]

    def probe(self, count: int, size: int) -> list[Piece]:
        """Windows of noise."""
        n = min(size, self.seq_len)
        noise = np.random.default_rng(0).standard_normal((n, self.model.config.bands)).astype(np.float32)
        return [Piece(noise, n)] * count

    def feed(self, pieces: list[Piece]) -> Fed:
        """Frames (b, t, bands), all of which count."""
        features = torch.from_numpy(np.stack([piece.data for piece in pieces])).to(self.model.device, self.model.base.dtype)
        return Fed(
            {"input_features": features},
            lambda stack, t: [Positions(np.zeros(t, dtype=bool), start=piece.start) for piece in pieces],
        )


def _processor(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    return None


trained_speech = Family(
    name="trained_speech",
    modality="speech",
    about="networks of frames of speech made by `isoscope train`",
    covers={"isoscope speech": RANDOM},
    matches=lambda config: 3 * (config.model_type == "isoscope" and config.modality == "speech"),
    stacks=lambda model: {"encoder": Stack(model, "blocks.*")},
    processor=_processor,
    reader=FrameReader,
)
