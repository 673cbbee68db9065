"""From an item's text to sequences of token ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from isoscope.core.errors import IsoscopeError


@dataclass(frozen=True)
class Tokens:
    """One sequence: its ids and which of them are special; `start` is its first token's index within the item."""

    ids: np.ndarray
    special: np.ndarray
    start: int


def encode(tokenizer: Any, text: str, seq_len: int) -> list[Tokens]:
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
        array = np.asarray(ids, dtype=np.int64)
        special = np.asarray(mask, dtype=bool) | np.isin(array, list(controls))
        if len(array) and not special.all():
            sequences.append(Tokens(array, special, start))
        start += len(array)
    return sequences
