"""Words: sequences of words for CharacterBERT, each word a row of character ids."""

from __future__ import annotations

from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.models.loading.chunk import Chunk, ModelInput, Positions
from isoscope.models.loading.config_limits import require_count
from isoscope.models.loading.family import LoadedModel
from isoscope.models.loading.readers.batching import pad_right
from isoscope.models.loading.readers.text import DEFAULT_SEQ_LEN


class WordReader:
    """Sequences of words between [CLS] and [SEP]."""

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
        return [Chunk(self.tokenizer.ids(["a"] * n), n) for _ in range(count)]

    def feed(self, chunks: list[Chunk]) -> ModelInput:
        """Character ids (b, words, characters) and the mask of words, padded on the right."""
        ids, mask = pad_right([chunk.data for chunk in chunks], 0, self.model.device)
        positions = [Positions(chunk.special_mask, start=chunk.start) for chunk in chunks]
        return ModelInput({"input_ids": ids, "attention_mask": mask}, lambda stack, t: positions)
