"""Encoder–decoders: the encoder reads an item, the decoder is fed the same item, shifted right by its start token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from isoscope.models.family import Family


def _start(config: Any) -> int | None:
    for name in ("decoder_start_token_id", "pad_token_id", "bos_token_id"):
        token = getattr(config, name, None)
        if token is not None:
            return int(token)
    return 0


def _feed(model: Any, ids: Tensor, mask: Tensor) -> dict[str, Any]:
    start = torch.full_like(ids[:, :1], _start(model.config) or 0)
    shifted = torch.cat([start, ids[:, :-1]], dim=1)
    return {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": shifted, "decoder_attention_mask": mask, "use_cache": False}


def _stacks(model: Any) -> dict[str, nn.Module]:
    return {"encoder": model.get_encoder(), "decoder": model.get_decoder()}


encoder_decoder = Family(
    name="encoder_decoder",
    modality="text",
    about="sequence-to-sequence models: T5, Flan-T5, BART, Pegasus, …",
    matches=lambda config: bool(getattr(config, "is_encoder_decoder", False)),
    stacks=_stacks,
    feed=_feed,
    start=_start,
)
