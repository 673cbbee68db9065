"""Models that read characters or bytes: CANINE, CharacterBERT, MANTa-LM."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from isoscope.core.errors import IsoscopeError
from isoscope.models.loading.chunk import Chunk, ModelInput, Positions, pad_right
from isoscope.models.loading.family import RANDOM, Family, LoadedModel, Stack, model_types
from isoscope.models.loading.file_limits import require_count
from isoscope.models.loading.readers.text import DEFAULT_SEQ_LEN, PairReader, TextReader
from isoscope.models.loading.readers.tokenizer import load_tokenizer
from isoscope.models.model_errors import CANNOT_RUN, model_errors_as_user_errors


class CanineReader(TextReader):
    """Characters. The convolution that shortens a sequence would mix its end with padding, so lengths never share a batch."""

    pads = False

    def _positions(self, chunks: list[Chunk], stack: str, t: int) -> list[Positions]:
        if stack != "encoder":
            return super()._positions(chunks, stack, t)
        rate = self.model.config.downsampling_rate
        return [Positions(np.arange(t) == 0, start=chunk.start // rate) for chunk in chunks]


class WordReader:
    """Sequences of words between [CLS] and [SEP], each word a row of character ids."""

    unit = "tokens"
    pads = True
    special_tokens = "[CLS] … [SEP]"

    def __init__(self, model: LoadedModel, seq_len: int | None) -> None:
        self.model, self.tokenizer = model, model.processor
        longest = require_count(model.config.max_position_embeddings, "max_position_embeddings", model.reference.spec)
        if seq_len is not None and not 3 <= seq_len <= longest:
            raise IsoscopeError(f"{model.reference.name} takes 3 to {longest} words per sequence; --seq-len was {seq_len}.")
        self.seq_len = seq_len or min(DEFAULT_SEQ_LEN, longest)

    def chunks(self, content: Any) -> list[Chunk]:
        """Cut a text into sequences of at most `seq_len` words, the two special ones included."""
        words, room, chunks, start = self.tokenizer.words(content), self.seq_len - 2, [], 0
        for i in range(0, len(words), room):
            ids = self.tokenizer.ids(["[CLS]", *words[i : i + room], "[SEP]"])
            chunks.append(Chunk(ids, len(ids), start, self.tokenizer.special(ids)))
            start += len(ids)
        return chunks

    def probe(self, count: int, size: int) -> list[Chunk]:
        """Sequences that repeat one word."""
        n = min(size, self.seq_len)
        return [Chunk(self.tokenizer.ids(["a"] * n), n)] * count

    def feed(self, chunks: list[Chunk]) -> ModelInput:
        """Character ids (b, words, characters) and the mask of words, padded on the right."""
        ids, mask = pad_right([chunk.data for chunk in chunks], 0, self.model.device)
        positions = [Positions(chunk.special_mask, start=chunk.start) for chunk in chunks]
        return ModelInput({"input_ids": ids, "attention_mask": mask}, lambda stack, t: positions)


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


def _load_word_tokenizer(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    from isoscope.models.loading.architectures.character_bert import CharacterTokenizer

    return CharacterTokenizer.from_folder(folder)


def _make_byte_tokenizer(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    from transformers import ByT5Tokenizer

    return ByT5Tokenizer(extra_ids=0, model_max_length=config.max_length_inputs)


def _canine_stacks(model: Any) -> dict[str, Stack]:
    modules = {"characters": model.initial_char_encoder, "encoder": model.encoder, "characters_out": model.final_char_encoder}
    return {name: Stack(module) for name, module in modules.items()}


canine = Family(
    name="canine",
    modality="characters",
    about="characters, shortened fourfold for the deep stack",
    covers={"CANINE-s": RANDOM, "CANINE-c": RANDOM},
    matches=model_types("canine"),
    stacks=_canine_stacks,
    processor=load_tokenizer,
    reader=CanineReader,
)
character_bert = Family(
    name="character_bert",
    modality="characters",
    about="BERT over words that are made from their characters; written here",
    covers={"CharacterBERT": RANDOM},
    matches=model_types("character_bert"),
    stacks=lambda model: {"encoder": Stack(model.encoder)},
    processor=_load_word_tokenizer,
    reader=WordReader,
)
manta_lm = Family(
    name="manta_lm",
    modality="characters",
    about="bytes, gathered into blocks by the model itself; written here",
    covers={"MANTa-LM": RANDOM},
    matches=model_types("manta"),
    stacks=lambda model: {"encoder": Stack(model.encoder.t5_encoder), "decoder": Stack(model.decoder)},
    processor=_make_byte_tokenizer,
    reader=BlockReader,
)
