"""How the weights of a checkpoint fit its architecture, and whether what does not fit can reach a measured state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

LEFT_OVER = (".attn.bias", ".attn.masked_bias", "position_ids", "rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias")
"""Buffers that old checkpoints carry and no current model reads."""


@dataclass(frozen=True)
class Fit:
    """What does not fit, in words; both are empty where everything fits."""

    inside: str = ""
    """Weights of the part that is run: a measured state may depend on them."""
    outside: str = ""
    """Weights of a head, on which no measured state depends."""
    drawn: frozenset[str] = frozenset()
    """The names of all weights that were initialised at random."""


def fit_of(model: Any, report: dict[str, Any]) -> Fit:
    """Compare a model with what transformers reports about its weights.

    The base is what is run, so a weight outside of it reaches no state. Nor does the output embedding, which some bases hold and which
    only makes logits, nor a pooler, which only reads the last state.
    """
    run, named = _tensors_that_are_run(model), _tensors_by_name(model)
    prefix = model.base_model_prefix + "."

    def is_inside(key: str) -> bool:
        return (key not in named or id(named[key]) in run) and not key.removeprefix(prefix).startswith("pooler.")

    missing = sorted(report.get("missing_keys") or [])
    reshaped = {key: f"{key}: {tuple(there)}, not {tuple(here)}" for key, there, here in sorted(report.get("mismatched_keys") or [])}
    children = {name for name, _ in model.base_model.named_children()} - {"pooler"}
    extra = sorted(
        key
        for key in report.get("unexpected_keys") or []
        if key.removeprefix(prefix).partition(".")[0] in children and not key.endswith(LEFT_OVER)
    )
    return Fit(
        _in_words([key for key in missing if is_inside(key)], extra, [text for key, text in reshaped.items() if is_inside(key)]),
        _in_words([key for key in missing if not is_inside(key)], [], [text for key, text in reshaped.items() if not is_inside(key)]),
        frozenset([*missing, *reshaped]),
    )


def output_embedding(model: Any, drawn: Iterable[str] = ()) -> nn.Module | None:
    """The module that makes logits, unless the model has none or its table was initialised at random."""
    with contextlib.suppress(NotImplementedError):
        head: nn.Module | None = model.get_output_embeddings()
        named = _tensors_by_name(model)
        lost = {id(named[name]) for name in drawn if name in named}
        return None if head is None or id(getattr(head, "weight", None)) in lost else head
    return None


def _tensors_by_name(model: Any) -> dict[str, Any]:
    """Parameters and buffers; one that is tied has several names."""
    return dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))


def _tensors_that_are_run(model: Any) -> set[int]:
    """The identities of all tensors of the base, except those that belong to the output embedding alone."""
    head = output_embedding(model)
    with contextlib.suppress(NotImplementedError):
        head = None if head is model.get_input_embeddings() else head
    apart = {id(module) for module in head.modules()} if head is not None else set()
    within = (module for module in model.base_model.modules() if id(module) not in apart)
    return {id(tensor) for module in within for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False))}


def _in_words(missing: list[str], extra: list[str], reshaped: list[str]) -> str:
    kinds = (
        ("missing and initialised at random", missing),
        ("that the architecture does not have", extra),
        ("of another shape and initialised at random", reshaped),
    )
    return "; ".join(f"{len(keys)} {word} ({', '.join(keys[:3])}{', …' if len(keys) > 3 else ''})" for word, keys in kinds if keys)
