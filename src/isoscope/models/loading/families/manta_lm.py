"""MANTa-LM: bytes, gathered into blocks by a network that learns where they end, and a T5 over blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from isoscope.models.loading.chunk import Chunk, ModelInput, Positions
from isoscope.models.loading.family import RANDOM, Family, Stack, model_types
from isoscope.models.loading.model_errors import CANNOT_RUN, model_errors_as_user_errors
from isoscope.models.loading.readers.text import PairReader


def _make_tokenizer(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    from transformers import ByT5Tokenizer

    return ByT5Tokenizer(extra_ids=0, model_max_length=config.max_length_inputs)


class BlockReader(PairReader):
    """Bytes. The positions of the encoder are blocks; the model decides how many."""

    pads = False

    def feed(self, chunks: list[Chunk]) -> ModelInput:
        """Bytes for both stacks, and the number of blocks that the encoder will see."""
        ids, mask = self._pad(chunks)
        with torch.inference_mode(), model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            counts = self.model.base.encoder.segment(ids, mask)[1].sum(-1).tolist()

        def positions(stack: str, t: int) -> list[Positions]:
            if stack == "decoder":
                return self._positions(chunks, stack, t)
            return [Positions(np.zeros(int(count), dtype=bool), start=chunk.start) for count, chunk in zip(counts, chunks, strict=True)]

        return ModelInput(self._arguments(ids, mask), positions)


manta_lm = Family(
    name="manta_lm",
    modality="characters",
    about="bytes, gathered into blocks by the model itself; written here",
    covers={"MANTa-LM": RANDOM},
    matches=model_types("manta"),
    stacks=lambda model: {"encoder": Stack(model.encoder.t5_encoder), "decoder": Stack(model.decoder)},
    processor=_make_tokenizer,
    reader=BlockReader,
)
