"""MANTa-LM: bytes, gathered into blocks by a network that learns where they end, and a T5 over blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from isoscope.models.family import RANDOM, Family, Stack
from isoscope.models.model_errors import CANNOT_RUN, model_errors_as_user_errors
from isoscope.models.piece import Fed, Piece, Positions
from isoscope.models.readers.text import PairReader


def _tokenizer(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    from transformers import ByT5Tokenizer

    return ByT5Tokenizer(extra_ids=0, model_max_length=config.max_length_inputs)


class BlockReader(PairReader):
    """Bytes; the encoder's positions are blocks, as many as the model makes of them."""

    pads = False

    def feed(self, pieces: list[Piece]) -> Fed:
        """Bytes for both stacks, and how many blocks the encoder will see."""
        ids, mask = self._padded(pieces)
        with torch.inference_mode(), model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            counts = self.model.base.encoder.segment(ids, mask)[1].sum(-1).tolist()

        def positions(stack: str, t: int) -> list[Positions]:
            if stack == "decoder":
                return self._positions(pieces, stack, t)
            return [Positions(np.zeros(int(count), dtype=bool), start=piece.start) for count, piece in zip(counts, pieces, strict=True)]

        return Fed(self._arguments(ids, mask), positions)


manta_lm = Family(
    name="manta_lm",
    modality="characters",
    about="bytes, gathered into blocks by the model itself; written here",
    covers={"MANTa-LM": RANDOM},
    matches=lambda config: 2 * (config.model_type == "manta"),
    stacks=lambda model: {"encoder": Stack(model.encoder.t5_encoder), "decoder": Stack(model.decoder)},
    processor=_tokenizer,
    reader=BlockReader,
)
