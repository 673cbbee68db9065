"""Text: from an item to sequences of token ids, and from those to padded batches."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.models.loading.chunk import Chunk, ModelInput, Positions, pad_right
from isoscope.models.loading.family import LoadedModel
from isoscope.models.loading.readers.tokenizer import show_around, token_names, tokens_around
from isoscope.models.model_errors import CANNOT_RUN, model_errors_as_user_errors

DEFAULT_SEQ_LEN = 512
NO_LIMIT = 1_000_000
"""A length beyond this stands for none: many tokenizers say 10³⁰."""

Tokenized = tuple[list[tuple[list[Any], list[int]]], set[Any]]
"""Ids and special-tokens mask of each sequence, and the ids of all tokens that control the model."""


def max_sequence_length(model: LoadedModel) -> int | None:
    """The longest sequence a model takes, if it says so."""
    limits = [_whole_number(model.processor.model_max_length) or 0]
    config, embeddings = model.config, getattr(model.base, "embeddings", None)
    positions = _whole_number(getattr(config, "max_position_embeddings", None)) or _whole_number(getattr(config, "n_positions", None))
    if positions and positions > 0:
        # RoBERTa and its kin count positions from the one after the padding's, so their table has a few rows that no token uses.
        counts_past_padding = hasattr(embeddings, "create_position_ids_from_inputs_embeds")
        offset = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None) if counts_past_padding else None
        limits.append(positions - (offset + 1 if offset is not None else 0))
    return min((limit for limit in limits if 0 < limit < NO_LIMIT), default=None)


def _whole_number(value: Any) -> int | None:
    """A whole number from a configuration; None if it holds none, or something else."""
    return int(value) if isinstance(value, int | float) and value == value and abs(value) != float("inf") else None


class TextReader:
    """Sequences of token ids with a mask; special tokens as the tokenizer places them."""

    unit = "tokens"
    pads = True

    def __init__(self, model: LoadedModel, seq_len: int | None) -> None:
        self.model, self.tokenizer = model, model.processor
        longest = max_sequence_length(model)
        if seq_len is not None and longest is not None and seq_len > longest:
            raise IsoscopeError(f"{model.reference.name} takes at most {longest} tokens per sequence; --seq-len was {seq_len}.")
        self.seq_len = seq_len or min(DEFAULT_SEQ_LEN, longest or DEFAULT_SEQ_LEN)

    def chunks(self, content: Any) -> list[Chunk]:
        """Cut a text into sequences of at most `seq_len` tokens, each with the special tokens that the model expects."""
        with model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            tokenized = _tokenize(self.tokenizer, content, self.seq_len)
        return _make_chunks(*tokenized)

    @cached_property
    def special_tokens(self) -> str:
        """The special tokens around each sequence, by name."""
        return show_around(*self._names_around)

    @cached_property
    def _names_around(self) -> tuple[list[str], list[str]]:
        with model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            before, after = tokens_around(self.tokenizer)
        return token_names(self.tokenizer, before), token_names(self.tokenizer, after)

    def probe(self, count: int, size: int) -> list[Chunk]:
        """Sequences that repeat one token."""
        n = min(size, self.seq_len)
        return [Chunk(np.ones(n, dtype=np.int64), n) for _ in range(count)]

    def feed(self, chunks: list[Chunk]) -> ModelInput:
        """Ids and their mask, padded on the right."""
        ids, mask = self._pad(chunks)
        return ModelInput(self._arguments(ids, mask), lambda stack, t: self._positions(chunks, stack, t))

    def _arguments(self, ids: Tensor, mask: Tensor) -> dict[str, Any]:
        return {"input_ids": ids, "attention_mask": mask}

    def _positions(self, chunks: list[Chunk], stack: str, t: int) -> list[Positions]:
        return [Positions(chunk.special_mask, chunk.data, chunk.start) for chunk in chunks]

    def _pad(self, chunks: list[Chunk]) -> tuple[Tensor, Tensor]:
        return pad_right([chunk.data for chunk in chunks], self._padding_id, self.model.device)

    @cached_property
    def _padding_id(self) -> int:
        return _first_number(self.tokenizer.pad_token_id, getattr(self.model.config, "pad_token_id", None))


class CausalReader(TextReader):
    """Sequences for a decoder, which keeps nothing between batches."""

    def _arguments(self, ids: Tensor, mask: Tensor) -> dict[str, Any]:
        return super()._arguments(ids, mask) | {"use_cache": False}


class PairReader(TextReader):
    """Sequences for an encoder; its decoder gets the same ones, after its start token. An encoder without a decoder is fed alone."""

    @cached_property
    def special_tokens(self) -> str:
        """The special tokens of the encoder and of the decoder."""
        before, after = self._names_around
        if not self._has_decoder:
            return show_around(before, after)
        shifted = show_around(token_names(self.tokenizer, [self._start_id]) + before, after[:-1])
        return f"encoder: {show_around(before, after)}; decoder: {shifted}"

    @cached_property
    def _has_decoder(self) -> bool:
        return "decoder" in self.model.family.stacks(self.model.base)

    def _arguments(self, ids: Tensor, mask: Tensor) -> dict[str, Any]:
        arguments = super()._arguments(ids, mask)
        if not self._has_decoder:
            return arguments
        if not 0 <= self._start_id < 2**63:
            raise IsoscopeError(
                f"{self.model.reference.spec} cannot be run: its decoder starts with token {self._start_id}; correct its config.json."
            )
        shifted = torch.cat([torch.full_like(ids[:, :1], self._start_id), ids[:, :-1]], dim=1)
        return arguments | {"decoder_input_ids": shifted, "decoder_attention_mask": mask, "use_cache": False}

    @cached_property
    def _start_id(self) -> int:
        config = self.model.config
        return _first_number(*(getattr(config, name, None) for name in ("decoder_start_token_id", "pad_token_id", "bos_token_id")))

    def _positions(self, chunks: list[Chunk], stack: str, t: int) -> list[Positions]:
        if stack != "decoder":
            return super()._positions(chunks, stack, t)
        return [
            Positions(np.concatenate([[True], chunk.special_mask[:-1]]), np.concatenate([[self._start_id], chunk.data[:-1]]), chunk.start)
            for chunk in chunks
        ]


def _first_number(*values: Any) -> int:
    """The first of the values that is a whole number; 0 if none is."""
    return next((number for value in values if (number := _whole_number(value)) is not None), 0)


def encode_text(tokenizer: Any, text: str, seq_len: int) -> list[Chunk]:
    """Cut a text into sequences of at most `seq_len` tokens, each with the special tokens that the model expects."""
    return _make_chunks(*_tokenize(tokenizer, text, seq_len))


def _tokenize(tokenizer: Any, text: str, seq_len: int) -> Tokenized:
    """Every call into the tokenizer, and nothing else: an exception from here is the tokenizer's."""
    room = seq_len - tokenizer.num_special_tokens_to_add()
    if room < 1:
        raise IsoscopeError(f"A sequence of {seq_len} tokens leaves no room next to {seq_len - room} special ones; raise --seq-len.")
    if getattr(tokenizer, "is_fast", False):
        encoded = tokenizer(text, truncation=True, max_length=seq_len, return_overflowing_tokens=True, return_special_tokens_mask=True)
        sequences = list(zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True))
    else:  # slow tokenizers return no overflow: the ids are cut here, before special tokens are added
        bare = tokenizer(text, add_special_tokens=False)["input_ids"]
        built = [tokenizer.build_inputs_with_special_tokens(bare[i : i + room]) for i in range(0, len(bare), room)]
        sequences = [(ids, tokenizer.get_special_tokens_mask(ids, already_has_special_tokens=True)) for ids in built]
    return sequences, set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}


def _make_chunks(sequences: list[tuple[list[Any], list[int]]], controls: set[Any]) -> list[Chunk]:
    chunks, start = [], 0
    for ids, mask in sequences:
        if not all(isinstance(token, int) for token in ids):
            raise IsoscopeError("Its tokenizer has no id for a part of the text; give it a token for what it does not know (unk_token).")
        array = np.asarray(ids, dtype=np.int64)
        # A special token that is written out in the text is special too, although the tokenizer's mask does not say so.
        special = np.asarray(mask, dtype=bool) | np.isin(array, list(controls))
        if len(array) and not special.all():
            chunks.append(Chunk(array, len(array), start, special))
        start += len(array)
    return chunks
