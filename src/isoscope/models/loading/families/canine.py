"""CANINE: characters in, a deep stack over every fourth position, characters out. All three stacks are measured."""

from __future__ import annotations

from typing import Any

import numpy as np

from isoscope.models.loading.chunk import Chunk, Positions
from isoscope.models.loading.family import RANDOM, Family, Stack, model_types
from isoscope.models.loading.readers.text import TextReader
from isoscope.models.loading.readers.tokenizer import load_tokenizer


class CanineReader(TextReader):
    """Characters. The convolution that shortens a sequence would mix its end with padding, so lengths never share a batch."""

    pads = False

    def _positions(self, chunks: list[Chunk], stack: str, t: int) -> list[Positions]:
        if stack != "encoder":
            return super()._positions(chunks, stack, t)
        rate = self.model.config.downsampling_rate
        return [Positions(np.arange(t) == 0, start=chunk.start // rate) for chunk in chunks]


def _stacks(model: Any) -> dict[str, Stack]:
    return {
        "characters": Stack(model.initial_char_encoder),
        "encoder": Stack(model.encoder),
        "characters_out": Stack(model.final_char_encoder),
    }


canine = Family(
    name="canine",
    modality="characters",
    about="characters, shortened fourfold for the deep stack",
    covers={"CANINE-s": RANDOM, "CANINE-c": RANDOM},
    matches=model_types("canine"),
    stacks=_stacks,
    processor=load_tokenizer,
    reader=CanineReader,
)
