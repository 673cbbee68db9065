"""Text: from an item to sequences of token ids, and from those to padded batches."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.models.model_errors import CANNOT_RUN, model_errors_as_user_errors
from isoscope.models.piece import Fed, Piece, Positions
from isoscope.models.readers.tokenizer import show_around, token_names, tokens_around

if TYPE_CHECKING:
    from isoscope.models.load import LoadedModel

DEFAULT_SEQ_LEN = 512
FEW_SYMBOLS = 1024
"""A vocabulary below this is one of characters, bytes, residues or atoms."""


def longest(model: LoadedModel) -> int | None:
    """The longest sequence a model takes, where it says so."""
    limits = [_number(model.processor.model_max_length) or 0]
    positions = _number(getattr(model.config, "max_position_embeddings", None)) or _number(getattr(model.config, "n_positions", None))
    if positions and positions > 0:
        # RoBERTa and its kin count positions from the one after the padding's.
        offset = getattr(_embeddings(model.base), "padding_idx", None) if _counts_past_padding(model.base) else None
        limits.append(positions - (offset + 1 if offset is not None else 0))
    return min((limit for limit in limits if 0 < limit < 1_000_000), default=None)  # 0, or 10³⁰ in many tokenizers, stand for none


def _number(value: Any) -> int | None:
    """A whole number that a configuration gives; None where it gives none, or something else."""
    return int(value) if isinstance(value, int | float) and value == value and abs(value) != float("inf") else None


def _embeddings(base: Any) -> Any:
    return getattr(getattr(base, "embeddings", None), "position_embeddings", None)


def _counts_past_padding(base: Any) -> bool:
    return hasattr(getattr(base, "embeddings", None), "create_position_ids_from_inputs_embeds")


class TextReader:
    """Sequences of token ids with a mask; special tokens as the tokenizer places them."""

    unit = "tokens"
    pads = True

    def __init__(self, model: LoadedModel, seq_len: int | None) -> None:
        self.model, self.tokenizer = model, model.processor
        most = longest(model)
        if seq_len is not None and most is not None and seq_len > most:
            raise IsoscopeError(f"{model.reference.name} takes at most {most} tokens a sequence; --seq-len was {seq_len}.")
        self.seq_len = seq_len or min(DEFAULT_SEQ_LEN, most or DEFAULT_SEQ_LEN)

    def pieces(self, content: Any) -> list[Piece]:
        """At most `seq_len` consecutive tokens a sequence; each gets the special tokens that the model expects around it."""
        with model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            return encode(self.tokenizer, content, self.seq_len)

    @cached_property
    def special_tokens(self) -> str:
        """The special tokens that are fed around each sequence, by name."""
        return show_around(*self._around)

    @cached_property
    def _around(self) -> tuple[list[str], list[str]]:
        with model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            before, after = tokens_around(self.tokenizer)
        return token_names(self.tokenizer, before), token_names(self.tokenizer, after)

    def probe(self, count: int, size: int) -> list[Piece]:
        """Sequences of one token, again and again."""
        n = min(size, self.seq_len)
        return [Piece(np.ones(n, dtype=np.int64), n, special=np.zeros(n, dtype=bool)) for _ in range(count)]

    def feed(self, pieces: list[Piece]) -> Fed:
        """Ids and their mask, padded on the right."""
        ids, mask = self._padded(pieces)
        return Fed(self._arguments(ids, mask), lambda stack, t: self._positions(pieces, stack, t))

    def _arguments(self, ids: Tensor, mask: Tensor) -> dict[str, Any]:
        return {"input_ids": ids, "attention_mask": mask}

    def _positions(self, pieces: list[Piece], stack: str, t: int) -> list[Positions]:
        return [Positions(_special(piece), piece.data, piece.start) for piece in pieces]

    def _padded(self, pieces: list[Piece]) -> tuple[Tensor, Tensor]:
        width = max(piece.size for piece in pieces)
        ids = torch.full((len(pieces), width), self._padding, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, piece in enumerate(pieces):
            ids[row, : piece.size] = torch.from_numpy(piece.data)
            mask[row, : piece.size] = 1
        return ids.to(self.model.device), mask.to(self.model.device)

    @cached_property
    def _padding(self) -> int:
        for token in (self.tokenizer.pad_token_id, getattr(self.model.config, "pad_token_id", None)):
            if (number := _number(token)) is not None:
                return number
        return 0


class CausalReader(TextReader):
    """Sequences for a decoder, which keeps nothing between batches."""

    def _arguments(self, ids: Tensor, mask: Tensor) -> dict[str, Any]:
        return {"input_ids": ids, "attention_mask": mask, "use_cache": False}


class PairReader(TextReader):
    """Sequences for an encoder; its decoder is fed the same ones, behind its start token. Encoders without a decoder are fed alone."""

    @cached_property
    def special_tokens(self) -> str:
        """The special tokens that are fed to each of the two."""
        before, after = self._around
        if not self._has_decoder:
            return show_around(before, after)
        shifted = show_around(token_names(self.tokenizer, [self._start]) + before, after[:-1])
        return f"encoder: {show_around(before, after)}; decoder: {shifted}"

    @cached_property
    def _has_decoder(self) -> bool:
        return "decoder" in self.model.family.stacks(self.model.base)

    def _arguments(self, ids: Tensor, mask: Tensor) -> dict[str, Any]:
        arguments = {"input_ids": ids, "attention_mask": mask}
        if not self._has_decoder:
            return arguments
        if not 0 <= self._start < 2**63:
            raise IsoscopeError(
                f"{self.model.reference.spec} cannot be run: its decoder starts with token {self._start}; correct its config.json."
            )
        shifted = torch.cat([torch.full_like(ids[:, :1], self._start), ids[:, :-1]], dim=1)
        return arguments | {"decoder_input_ids": shifted, "decoder_attention_mask": mask, "use_cache": False}

    @cached_property
    def _start(self) -> int:
        for name in ("decoder_start_token_id", "pad_token_id", "bos_token_id"):
            if (token := _number(getattr(self.model.config, name, None))) is not None:
                return token
        return 0

    def _positions(self, pieces: list[Piece], stack: str, t: int) -> list[Positions]:
        if stack != "decoder":
            return super()._positions(pieces, stack, t)
        return [
            Positions(np.concatenate([[True], _special(piece)[:-1]]), np.concatenate([[self._start], piece.data[:-1]]), piece.start)
            for piece in pieces
        ]


def _special(piece: Piece) -> np.ndarray:
    return piece.special if piece.special is not None else np.zeros(piece.size, dtype=bool)


def encode(tokenizer: Any, text: str, seq_len: int) -> list[Piece]:
    """At most `seq_len` consecutive tokens a sequence; each gets the special tokens that the model expects around it."""
    room = seq_len - tokenizer.num_special_tokens_to_add()
    if room < 1:
        raise IsoscopeError(f"A sequence of {seq_len} tokens leaves no room beside {seq_len - room} special ones; raise --seq-len.")
    if getattr(tokenizer, "is_fast", False):
        found = tokenizer(text, truncation=True, max_length=seq_len, return_overflowing_tokens=True, return_special_tokens_mask=True)
        pairs = list(zip(found["input_ids"], found["special_tokens_mask"], strict=True))
    else:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        pieces = [ids[i : i + room] for i in range(0, len(ids), room)]
        whole = [tokenizer.build_inputs_with_special_tokens(piece) for piece in pieces]
        pairs = [(ids, tokenizer.get_special_tokens_mask(ids, already_has_special_tokens=True)) for ids in whole]
    controls = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    sequences, start = [], 0
    for ids, mask in pairs:
        if not all(isinstance(token, int) for token in ids):
            raise IsoscopeError("Its tokenizer has no id for a part of the text; give it a token for what it does not know (unk_token).")
        array = np.asarray(ids, dtype=np.int64)
        special = np.asarray(mask, dtype=bool) | np.isin(array, list(controls))
        if len(array) and not special.all():
            sequences.append(Piece(array, len(array), start, special))
        start += len(array)
    return sequences
