"""From a reference to a model in memory, its weights checked against what the architecture expects."""

from __future__ import annotations

import contextlib
import pickle
import shlex
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from isoscope.core.errors import IsoscopeError, IsoscopeWarning, nearest
from isoscope.core.group import UNTRAINED
from isoscope.models.architectures import register
from isoscope.models.device_map import entrance, spread_over
from isoscope.models.family import Family, family_of
from isoscope.models.formats.gguf import check_gguf
from isoscope.models.formats.pickles import check_archive
from isoscope.models.formats.state import state_for
from isoscope.models.formats.weights import is_standard, weights_in
from isoscope.models.formats.whisper import read_whisper
from isoscope.models.limits import check_numbers, check_prepared, check_size, make
from isoscope.models.readers.text import FEW_SYMBOLS
from isoscope.models.reference import ModelReference, read_config

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
DEVICES = ("auto", "cpu", "cuda", "mps", "xpu")
LEFT_OVER = (".attn.bias", ".attn.masked_bias", "position_ids", "rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias")
"""Buffers that old checkpoints carry and no current model reads."""


@dataclass
class LoadedModel:
    """A model ready to be measured."""

    reference: ModelReference
    whole: nn.Module  # with its head, if it has one
    base: nn.Module  # what is run
    processor: Any  # a tokenizer, or what prepares clips or images
    family: Family
    device: torch.device

    @property
    def config(self) -> Any:
        """The model's configuration."""
        return self.base.config

    @property
    def modality(self) -> str:
        """The family's, but a text model with a vocabulary of few symbols reads characters, bytes, residues or atoms."""
        few = self.family.modality == "text" and len(self.processor) < FEW_SYMBOLS
        return "characters" if few else self.family.modality


def pick_device(device: str) -> torch.device:
    """`auto` takes what is fastest here."""
    if device.partition(":")[0] not in DEVICES:
        raise IsoscopeError(f"--device must be one of {', '.join(DEVICES)}; got {device!r}{nearest(device, list(DEVICES)) or '.'}")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        found = torch.device(device)
        torch.empty(1, device=found)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise IsoscopeError(f"The device {device!r} is not available here; use --device auto or cpu.") from error
    return found


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' own bars, reports and warnings: ours say the same in one line."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
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
    trust_remote_code: bool | Collection[str] = False,
    allow_partial: bool = False,
    seed: int = 0,
    device_map: str | None = None,
) -> LoadedModel:
    """Load a model and its tokenizer; weights that are missing, left over or do not fit are named and refused.

    `trust_remote_code` are the names of those models whose own code may run; True is all of them.
    """
    if dtype not in DTYPES:
        raise IsoscopeError(f"--dtype must be one of {', '.join(DTYPES)}; got {dtype!r}{nearest(dtype, list(DTYPES)) or '.'}")
    place, spread = pick_device(device), {} if device_map is None else spread_over(device_map)
    source = _source(reference, trust_remote_code)
    if _brings_code(reference):
        _say(f"{reference.name} brings its own code, and it is run.")
    misfit = ""
    # Weights that a checkpoint lacks are drawn with the seed, so that they too are the same the next time.
    with _quiet(), explained(reference), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = _config(reference, source)
        family = family_of(config)
        kind = _class_of(config, reference)
        check_prepared(reference)
        check_size(kind, config, reference, DTYPES[dtype].itemsize)
        if reference.untrained:
            model = make(kind, config, reference, DTYPES[dtype].itemsize).to(DTYPES[dtype])
        else:
            taken = {"config": config, "dtype": DTYPES[dtype], "output_loading_info": True, "ignore_mismatched_sizes": True}
            model, report = _filled(kind, reference, taken | spread, source)
            misfit = _misfit(model, report)
        processor = family.processor(reference.folder, config, source)
    if misfit and not allow_partial:
        raise IsoscopeError(f"The weights of {reference.spec} do not fit its architecture: {misfit}. To go on, say --allow-partial.")
    if misfit:
        _say(f"the weights of {reference.name} do not fit its architecture: {misfit}.")
    model.eval()
    if spread and not reference.untrained:
        place = entrance(model)
    else:
        model.to(place)
    return LoadedModel(reference, model, model.base_model, processor, family, place)


def family_for(reference: ModelReference, *, trust_remote_code: bool | Collection[str] = False) -> Family:
    """The family of a model that is not loaded yet."""
    with _quiet(), explained(reference):
        return family_of(_config(reference, _source(reference, trust_remote_code)))


def _source(reference: ModelReference, trust_remote_code: bool | Collection[str]) -> dict[str, Any]:
    trusted = is_trusted(reference, trust_remote_code)
    source: dict[str, Any] = {"trust_remote_code": trusted, "local_files_only": True}
    if reference.gguf:
        return source | {"gguf_file": reference.gguf}
    if _brings_code(reference) and not trusted:
        raise _own_code(reference)
    return source


def is_trusted(reference: ModelReference, trust_remote_code: bool | Collection[str]) -> bool:
    """Whether a model's own code may run: trust is given to models one by one, by the names that the user calls them."""
    if isinstance(trust_remote_code, bool):
        return trust_remote_code
    bare = {reference.spec.removeprefix(UNTRAINED), reference.name.removeprefix(UNTRAINED)}
    given = [trust_remote_code] if isinstance(trust_remote_code, str) else trust_remote_code
    return any(name.removeprefix(UNTRAINED) in bare for name in given)


def _own_code(reference: ModelReference) -> IsoscopeError:
    name = reference.name.removeprefix(UNTRAINED)
    return IsoscopeError(f"{reference.spec} brings its own code; read it, and if you trust it say --trust-remote-code {shlex.quote(name)}.")


def _filled(kind: Any, reference: ModelReference, taken: dict[str, Any], source: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A model with its weights, in whatever form they come, and what transformers says of those that did not fit."""
    if reference.whisper:
        state = read_whisper(reference.folder / reference.whisper)[1]
        return kind.from_pretrained(None, state_dict=state, **taken)  # type: ignore[no-any-return]
    for path in [] if reference.gguf else weights_in(reference.folder):
        if path.suffix != ".safetensors":
            check_archive(path)
    if reference.gguf or is_standard(reference.folder):
        model, report = kind.from_pretrained(reference.folder, **taken, **source)
        if reference.gguf or not report["missing_keys"]:
            return model, report
    else:
        model = make(kind, taken["config"], reference, taken["dtype"].itemsize)
        report = {"missing_keys": list(model.state_dict())}
    renamed = state_for(model, reference.folder)
    return type(model).from_pretrained(None, state_dict=renamed, **taken) if renamed else (model, report)


def _brings_code(reference: ModelReference) -> bool:
    """Whether a checkpoint needs code of its own; that of architectures written here is never used."""
    if reference.gguf or reference.whisper:
        return False
    config = read_config(reference.folder)
    own = {kind.config_class.model_type for kind in register().values()}
    return ("auto_map" in config and config.get("model_type") not in own) or _names_a_kernel(config)


def _names_a_kernel(config: Any) -> bool:
    """Whether a configuration asks for an implementation of attention from a repository, which is code that would be fetched and run."""
    if not isinstance(config, dict):
        return False
    return any(
        _names_a_kernel(value) or (name.endswith("attn_implementation") and "/" in str(value)) or (name == "kernel_config" and bool(value))
        for name, value in config.items()
    )


def _config(reference: ModelReference, source: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    register()
    if reference.whisper:
        config: Any = read_whisper(reference.folder / reference.whisper)[0]
    else:
        if reference.gguf:
            check_gguf(reference.folder / reference.gguf)
        else:
            check_numbers(read_config(reference.folder), reference)
        config = AutoConfig.from_pretrained(reference.folder, **source)
    check_numbers(config.to_dict(), reference)
    return config


def _say(text: str) -> None:
    warnings.warn(text, IsoscopeWarning, stacklevel=3)


def _class_of(config: Any, reference: ModelReference) -> Any:
    """The class whose weights these are, so that the output embedding is there and no weight is missing by design."""
    import transformers

    named, ours = (getattr(config, "architectures", None) or [None])[0], register()
    found = ours.get(named) or (getattr(transformers, named, None) if named and not hasattr(config, "auto_map") else None)
    if found is not None and getattr(found, "config_class", None) is type(config):
        return found
    return transformers.AutoModelForCausalLM if reference.gguf else transformers.AutoModel


PANIC = "PanicException"
"""What a library written in Rust raises where it did not expect a value, such as tokenizers; it is no Exception."""
LONGEST_REASON = 400
"""Characters of what a library said; some repeat the whole value that they did not like."""


@contextlib.contextmanager
def explained(reference: ModelReference, what: str = "") -> Iterator[None]:
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
        raise IsoscopeError(f"{reference.spec} needs a package that is not installed: {_first_line(error)}.") from error
    except BaseException as error:  # transformers, tokenizers, safetensors and gguf raise types that have nothing in common
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        text = str(error)
        if "weights_only" in text or "Unpickl" in type(error).__name__ + text:
            raise IsoscopeError(
                f"{reference.spec} holds a pickle that is more than weights; it was not opened. Ask for safetensors."
            ) from error
        if "trust_remote_code" in text:
            raise _own_code(reference) from error
        if type(error).__name__ == "SafetensorError":
            raise IsoscopeError(
                f"The weights of {reference.spec} are damaged ({_first_line(error)}); copy or download its .safetensors again."
            ) from error
        what = what or ("cannot be read as a GGUF file" if reference.gguf else "cannot be loaded")
        raise IsoscopeError(f"{reference.spec} {what}: {_first_line(error)[:LONGEST_REASON]}.") from error


def _first_line(error: BaseException) -> str:
    """The first line of what a library said, or two where the first only introduces the second."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[: 2 if lines[0].endswith(":") else 1]).rstrip(".:")


def _misfit(model: Any, report: dict[str, Any]) -> str:
    """Which weights are missing, left over or of another shape; empty where none is.

    A head that the base does not have may be left over, and a pooler may be missing: neither touches a hidden state.
    """
    prefix = model.base_model_prefix + "."
    children = {name for name, _ in model.base_model.named_children()}
    missing = sorted(key for key in report.get("missing_keys") or [] if not key.removeprefix(prefix).startswith("pooler."))
    extra = sorted(
        key
        for key in report.get("unexpected_keys") or []
        if key.removeprefix(prefix).partition(".")[0] in children - {"pooler"} and not key.endswith(LEFT_OVER)
    )
    misfits = sorted(f"{key}: {tuple(there)}, not {tuple(here)}" for key, there, here in report.get("mismatched_keys") or [])
    said = [
        f"{len(keys)} {word} ({', '.join(keys[:3])}{', …' if len(keys) > 3 else ''})"
        for word, keys in (
            ("missing and initialised at random", missing),
            ("that the architecture does not have", extra),
            ("of another shape and initialised at random", misfits),
        )
        if keys
    ]
    return "; ".join(said)
