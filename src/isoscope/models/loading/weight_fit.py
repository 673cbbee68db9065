"""How the weights of a checkpoint fit its architecture, and whether a misfit can reach a measured state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

LEFT_OVER = (".attn.bias", ".attn.masked_bias", "position_ids", "rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias")
"""Buffers in old checkpoints that no current model reads."""


@dataclass(frozen=True)
class WeightFit:
    """The misfits between a checkpoint and its architecture, in words; both texts are empty if everything fits."""

    inside: str = ""
    """Weights of the part that is run: a measured state may depend on them."""
    outside: str = ""
    """Weights of a head, on which no measured state depends."""
    random_names: frozenset[str] = frozenset()
    """The names of all weights that were initialised at random."""


def compare_weights(model: Any, report: dict[str, Any]) -> WeightFit:
    """Compare a model with what transformers reports about its weights.

    Only the base is run, so a weight outside it reaches no state. Two parts inside some bases reach none either: the output embedding,
    which only makes logits, and a pooler, which only reads the last state.
    """
    run, named = _tensors_that_are_run(model), _tensors_by_name(model)
    prefix = model.base_model_prefix + "."

    def is_inside(key: str) -> bool:
        return (key not in named or id(named[key]) in run) and not key.removeprefix(prefix).startswith("pooler.")

    # transformers reports a missing weight and a weight of another shape; both were drawn at random instead.
    missing = sorted(report.get("missing_keys") or [])
    reshaped = {key: f"{key}: {tuple(there)}, not {tuple(here)}" for key, there, here in sorted(report.get("mismatched_keys") or [])}
    children = {name for name, _ in model.base_model.named_children()} - {"pooler"}
    # A left-over weight matters only inside a module that exists: one of another head is of no use here.
    extra = sorted(
        key
        for key in report.get("unexpected_keys") or []
        if key.removeprefix(prefix).partition(".")[0] in children and not key.endswith(LEFT_OVER)
    )
    return WeightFit(
        _describe_misfits([key for key in missing if is_inside(key)], extra, [text for key, text in reshaped.items() if is_inside(key)]),
        _describe_misfits(
            [key for key in missing if not is_inside(key)], [], [text for key, text in reshaped.items() if not is_inside(key)]
        ),
        frozenset([*missing, *reshaped]),
    )


def output_embedding(model: Any, random_names: Iterable[str] = ()) -> nn.Module | None:
    """The module that makes logits; None if the model has none, or if its table was initialised at random."""
    with contextlib.suppress(NotImplementedError):
        head: nn.Module | None = model.get_output_embeddings()
        named = _tensors_by_name(model)
        random_ids = {id(named[name]) for name in random_names if name in named}
        return None if head is None or id(getattr(head, "weight", None)) in random_ids else head
    return None


def _tensors_by_name(model: Any) -> dict[str, Any]:
    """Parameters and buffers; a tied tensor has several names."""
    return dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))


def _tensors_that_are_run(model: Any) -> set[int]:
    """The identities of all tensors of the base, except those that belong to the output embedding alone."""
    head = output_embedding(model)
    with contextlib.suppress(NotImplementedError):
        head = None if head is model.get_input_embeddings() else head  # a tied table is run as the input
    head_modules = {id(module) for module in head.modules()} if head is not None else set()
    run = (module for module in model.base_model.modules() if id(module) not in head_modules)
    return {id(tensor) for module in run for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False))}


def _describe_misfits(missing: list[str], extra: list[str], reshaped: list[str]) -> str:
    kinds = (
        ("missing and initialised at random", missing),
        ("that the architecture does not have", extra),
        ("of another shape and initialised at random", reshaped),
    )
    return "; ".join(f"{len(keys)} {word} ({', '.join(keys[:3])}{', …' if len(keys) > 3 else ''})" for word, keys in kinds if keys)
