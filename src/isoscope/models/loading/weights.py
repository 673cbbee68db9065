"""Weights of a checkpoint: read by name from any file, under any prefix, and compared with the architecture that they are for."""

from __future__ import annotations

import contextlib
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from isoscope.core.errors import IsoscopeError, first_line
from isoscope.trust.model_files import weights_in
from isoscope.trust.pickles import check_archive, check_tensors, is_archive

NESTED = ("state_dict", "model_state_dict", "model", "module")
"""Names under which a training loop saves the weights, next to an optimiser's state, counters and options."""
ENOUGH = 0.9
"""The share of the expected names that must be present before a prefix is removed."""

LEFT_OVER = (".attn.bias", ".attn.masked_bias", "position_ids", "rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias")
"""Buffers in old checkpoints that no current model reads."""


def read_state(folder: Path) -> dict[str, Tensor]:
    """All weights of a folder by name, shards joined; a pickle is opened for its tensors only."""
    files = weights_in(folder)
    if not files:
        raise IsoscopeError(f"{folder} holds no weights (.safetensors, .bin, .pt or .ckpt).")
    state: dict[str, Tensor] = {}
    for path in files:
        state |= read_file(path)
    return state


def state_for(model: nn.Module, folder: Path) -> dict[str, Tensor] | None:
    """All weights of a folder under the model's own names, or those of its base; None if no prefix turns them into these."""
    state = read_state(folder)
    for part in (model, getattr(model, "base_model", model)):
        if names := strip_prefix(part.state_dict(), state):
            return {new: state[old] for old, new in names.items()}
    return None


@contextlib.contextmanager
def damaged_safetensors_as_user_errors(path: Path) -> Iterator[None]:
    """Turn an exception of safetensors into one sentence. It also raises torch's errors, for a shape that torch cannot have."""
    from safetensors import SafetensorError

    try:
        yield
    except (SafetensorError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise IsoscopeError(f"The weights in {path} are damaged ({first_line(error)}); copy or download the file again.") from error


def read_file(path: Path) -> dict[str, Tensor]:
    """The weights in one file by name."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        with damaged_safetensors_as_user_errors(path):
            return load_file(path)
    content = unpickle(path)
    for _ in range(2):  # a wrapper within a checkpoint
        for name in NESTED:
            if isinstance(content, dict) and isinstance(content.get(name), dict):
                content = content[name]
                break
    tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)} if isinstance(content, dict) else {}
    if not tensors:
        raise IsoscopeError(f"{path} holds no weights by name; save model.state_dict() instead.")
    check_tensors(path, tensors.values())  # a stride of 0 makes one number a tensor of any size
    return tensors


def unpickle(path: Path) -> Any:
    """Load a file of torch.save on the CPU; anything but tensors, numbers, strings and containers of them is refused."""
    check_archive(path)
    try:
        # Mapped if the format allows it: tensors that are not used are not read.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_archive(path))
    except pickle.UnpicklingError as error:
        raise IsoscopeError(f"{path} holds a pickle that is more than weights; it was not opened. Ask for safetensors.") from error
    except Exception as error:  # given rubbish, torch's reader fails with any type of exception
        raise IsoscopeError(f"{path} is damaged or is not a file of torch.save; copy or download it again.") from error


def strip_prefix(expected_names: Iterable[str], saved_names: Iterable[str]) -> dict[str, str] | None:
    """The saved names with their new names, without the prefix that hides the expected names; None if there is no such prefix.

    DataParallel puts `module.` before each name, torch.compile `_orig_mod.`, Lightning the attribute (`model.`, `net.`), and they
    stack. Names without the prefix are no part of the model and are left out.

    >>> strip_prefix(["a.weight", "a.bias"], ["model._orig_mod.a.weight", "model._orig_mod.a.bias", "loss.scale"])
    {'model._orig_mod.a.weight': 'a.weight', 'model._orig_mod.a.bias': 'a.bias'}
    >>> strip_prefix(["a.weight", "a.bias"], ["b.weight", "b.bias"])
    """
    expected, saved = set(expected_names), list(saved_names)
    hits = Counter(prefix for name in saved for prefix in _prefixes(name) if name[len(prefix) :] in expected)
    # Among equals the shortest prefix wins, so that names that fit as they are stay as they are.
    best = min(hits, key=lambda prefix: (-hits[prefix], len(prefix)), default=None)
    if best is None or hits[best] < ENOUGH * len(expected):
        return None
    return {name: name[len(best) :] for name in saved if name.startswith(best)}


def _prefixes(name: str) -> list[str]:
    """Every prefix of a dotted name, the empty one first: `a.b.c` → ``, `a.`, `a.b.`."""
    parts = name.split(".")
    return ["".join(f"{part}." for part in parts[:count]) for count in range(len(parts))]


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

    def describe(*, inside: bool) -> str:
        changed = [text for key, text in reshaped.items() if is_inside(key) is inside]
        return _describe_misfits([key for key in missing if is_inside(key) is inside], extra if inside else [], changed)

    return WeightFit(describe(inside=True), describe(inside=False), frozenset([*missing, *reshaped]))


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
