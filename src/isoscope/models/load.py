"""From a reference to a model in memory, its weights checked against what the architecture expects."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from isoscope.core.errors import IsoscopeError
from isoscope.models.family import Family, family_of
from isoscope.models.reference import ModelReference, read_config

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
LEFT_OVER = (".attn.bias", ".attn.masked_bias", "position_ids", "rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias")
"""Buffers that old checkpoints carry and no current model reads."""


@dataclass
class LoadedModel:
    """A model ready to be measured."""

    reference: ModelReference
    whole: nn.Module  # with its head, if it has one
    base: nn.Module  # what is run
    tokenizer: Any
    family: Family
    device: torch.device

    @property
    def config(self) -> Any:
        """The model's configuration."""
        return self.base.config

    def longest(self) -> int | None:
        """The longest sequence the model takes, where it says so."""
        limits = [int(self.tokenizer.model_max_length)]
        positions = getattr(self.config, "max_position_embeddings", None) or getattr(self.config, "n_positions", None)
        if positions:
            limits.append(int(positions))
        return limit if (limit := min(limits)) < 1_000_000 else None


def pick_device(device: str) -> torch.device:
    """`auto` takes what is fastest here."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        found = torch.device(device)
        torch.empty(1, device=found)
    except (RuntimeError, AssertionError) as error:
        raise IsoscopeError(f"The device {device!r} is not available here; use --device auto or cpu.") from error
    return found


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' own bars and reports: ours say the same in one line."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def load(
    reference: ModelReference,
    *,
    dtype: str = "float32",
    device: str = "auto",
    trust_remote_code: bool = False,
    allow_partial: bool = False,
    seed: int = 0,
) -> LoadedModel:
    """Load a model and its tokenizer; weights that are missing, left over or do not fit are named and refused."""
    if dtype not in DTYPES:
        raise IsoscopeError(f"The dtype must be one of {', '.join(DTYPES)}; got {dtype!r}.")
    place = pick_device(device)
    source: dict[str, Any] = {"trust_remote_code": trust_remote_code, "local_files_only": True}
    if reference.gguf:
        source["gguf_file"] = reference.gguf
    if not trust_remote_code and not reference.gguf and "auto_map" in read_config(reference.folder):
        raise IsoscopeError(f"{reference.spec} brings its own code; read it, and if you trust it say --trust-remote-code.")
    with _quiet(), _explained(reference):
        from transformers import AutoConfig, AutoTokenizer

        config = AutoConfig.from_pretrained(reference.folder, **source)
        family = family_of(config)
        kind = _class_of(config, reference)
        if reference.untrained:
            torch.manual_seed(seed)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model = kind.from_config(config) if hasattr(kind, "from_config") else kind(config)
            model = model.to(DTYPES[dtype])
        else:
            model, report = kind.from_pretrained(reference.folder, config=config, dtype=DTYPES[dtype], output_loading_info=True, **source)
            _check_weights(model, report, reference, allow_partial=allow_partial)
        tokenizer = AutoTokenizer.from_pretrained(reference.folder, **source)
    model.eval().to(place)
    return LoadedModel(reference, model, model.base_model, tokenizer, family, place)


def _class_of(config: Any, reference: ModelReference) -> Any:
    """The class whose weights these are, so that the output embedding is there and no weight is missing by design."""
    import transformers

    named = (getattr(config, "architectures", None) or [None])[0]
    found = getattr(transformers, named, None) if named and not hasattr(config, "auto_map") else None
    if found is not None and getattr(found, "config_class", None) is type(config):
        return found
    return transformers.AutoModelForCausalLM if reference.gguf else transformers.AutoModel


@contextlib.contextmanager
def _explained(reference: ModelReference) -> Iterator[None]:
    """What the libraries say of a bad checkpoint, as one sentence."""
    try:
        yield
    except IsoscopeError:
        raise
    except pickle.UnpicklingError as error:
        raise IsoscopeError(
            f"{reference.spec} holds a pickle that is more than weights; it was not opened. Ask for safetensors."
        ) from error
    except ImportError as error:
        raise IsoscopeError(f"{reference.spec} needs a package that is not installed: {_first_line(error)}") from error
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError) as error:
        text = str(error)
        if "weights_only" in text or "Unpickl" in type(error).__name__ + text:
            raise IsoscopeError(
                f"{reference.spec} holds a pickle that is more than weights; it was not opened. Ask for safetensors."
            ) from error
        if "trust_remote_code" in text:
            raise IsoscopeError(f"{reference.spec} brings its own code; read it, and if you trust it say --trust-remote-code.") from error
        raise IsoscopeError(f"{reference.spec} cannot be loaded: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _check_weights(model: Any, report: dict[str, Any], reference: ModelReference, *, allow_partial: bool) -> None:
    """A head that the base does not have may be left over, and a pooler may be missing: neither touches a hidden state."""

    def names(kind: str) -> list[str]:
        return sorted(key if isinstance(key, str) else str(key[0]) for key in report.get(kind) or [])

    prefix = model.base_model_prefix + "."
    children = {name for name, _ in model.base_model.named_children()}
    missing = [key for key in names("missing_keys") if "pooler" not in key]
    extra = [
        key
        for key in names("unexpected_keys")
        if key.removeprefix(prefix).partition(".")[0] in children - {"pooler"} and not key.endswith(LEFT_OVER)
    ]
    misfits = names("mismatched_keys")
    if allow_partial or not (missing or extra or misfits):
        return
    said = [
        f"{len(keys)} {word} ({', '.join(keys[:3])}{', …' if len(keys) > 3 else ''})"
        for word, keys in (
            ("missing and initialised at random", missing),
            ("that the architecture does not have", extra),
            ("of another shape", misfits),
        )
        if keys
    ]
    raise IsoscopeError(f"The weights of {reference.spec} do not fit its architecture: {'; '.join(said)}. To go on, say --allow-partial.")
