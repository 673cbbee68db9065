"""From a reference to a model in memory, its weights checked against what the architecture expects."""

from __future__ import annotations

import contextlib
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
from isoscope.models.fit import Fit, fit_of, output_embedding
from isoscope.models.formats.gguf import check_gguf
from isoscope.models.formats.pickles import check_archive
from isoscope.models.formats.state import state_for
from isoscope.models.formats.weights import is_standard, weights_in
from isoscope.models.formats.whisper import read_whisper
from isoscope.models.limits import check_numbers, check_prepared, check_size, make
from isoscope.models.model_errors import brings_code, model_errors_as_user_errors
from isoscope.models.readers.text import FEW_SYMBOLS
from isoscope.models.reference import ModelReference, read_config
from isoscope.models.tokenizer_growth import check_tokenizer, check_tokenizer_files

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
DEVICES = ("auto", "cpu", "cuda", "mps", "xpu")


@dataclass
class LoadedModel:
    """A model ready to be measured."""

    reference: ModelReference
    whole: nn.Module  # with its head, if it has one
    base: nn.Module  # what is run
    processor: Any  # a tokenizer, or what prepares clips or images
    family: Family
    device: torch.device
    fit: Fit  # how its weights fit

    @property
    def output_embedding(self) -> nn.Module | None:
        """The module that makes logits; None where there is none, or none with weights from the checkpoint."""
        return output_embedding(self.whole, self.fit.drawn)

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
    """Without transformers' own bars, reports and warnings: ours say the same in one line, afterwards."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
    for one in caught:
        if issubclass(one.category, IsoscopeWarning):
            _say(str(one.message))


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
    """Load a model and its tokenizer; weights that are missing, left over or do not fit are named, and refused if a state depends on them.

    `trust_remote_code` are the names of those models whose own code may run; True is all of them.
    """
    if dtype not in DTYPES:
        raise IsoscopeError(f"--dtype must be one of {', '.join(DTYPES)}; got {dtype!r}{nearest(dtype, list(DTYPES)) or '.'}")
    place, spread = pick_device(device), {} if device_map is None else spread_over(device_map)
    source = _source(reference, trust_remote_code)
    if _brings_code(reference):
        _say(f"{reference.name} brings its own code, and it is run.")
    fit = Fit()
    # Weights that a checkpoint lacks are drawn with the seed, so that they too are the same the next time.
    with _quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = _config(reference, source)
        family = family_of(config)
        kind = _class_of(config, reference)
        check_prepared(reference)
        check_tokenizer_files(reference)
        check_size(kind, config, reference, DTYPES[dtype].itemsize)
        if reference.untrained:
            model = make(kind, config, reference, DTYPES[dtype].itemsize).to(DTYPES[dtype])
        else:
            taken = {"config": config, "dtype": DTYPES[dtype], "output_loading_info": True, "ignore_mismatched_sizes": True}
            model, report = _filled(kind, reference, taken | spread, source)
            fit = fit_of(model, report)
        with model_errors_as_user_errors(reference):
            processor = family.processor(reference.folder, config, source)
        check_tokenizer(processor, reference)
    if fit.inside and not allow_partial:
        raise IsoscopeError(f"The weights of {reference.spec} do not fit its architecture: {fit.inside}. To go on, say --allow-partial.")
    if fit.inside:
        _say(f"the weights of {reference.name} do not fit its architecture: {fit.inside}.")
    if fit.outside:
        _say(f"{reference.name} lacks weights of a head that no measured state depends on: {fit.outside}.")
    model.eval()
    if spread and not reference.untrained:
        place = entrance(model)
    else:
        model.to(place)
    return LoadedModel(reference, model, model.base_model, processor, family, place, fit)


def family_for(reference: ModelReference, *, trust_remote_code: bool | Collection[str] = False) -> Family:
    """The family of a model that is not loaded yet."""
    with _quiet():
        return family_of(_config(reference, _source(reference, trust_remote_code)))


def _source(reference: ModelReference, trust_remote_code: bool | Collection[str]) -> dict[str, Any]:
    trusted = is_trusted(reference, trust_remote_code)
    source: dict[str, Any] = {"trust_remote_code": trusted, "local_files_only": True}
    if reference.gguf:
        return source | {"gguf_file": reference.gguf}
    if _brings_code(reference) and not trusted:
        raise brings_code(reference)
    return source


def is_trusted(reference: ModelReference, trust_remote_code: bool | Collection[str]) -> bool:
    """Whether a model's own code may run: trust is given to models one by one, by the names that the user calls them."""
    if isinstance(trust_remote_code, bool):
        return trust_remote_code
    bare = {reference.spec.removeprefix(UNTRAINED), reference.name.removeprefix(UNTRAINED)}
    given = [trust_remote_code] if isinstance(trust_remote_code, str) else trust_remote_code
    return any(name.removeprefix(UNTRAINED) in bare for name in given)


def _filled(kind: Any, reference: ModelReference, taken: dict[str, Any], source: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A model with its weights, in whatever form they come, and what transformers says of those that did not fit."""
    if reference.whisper:
        state = read_whisper(reference.folder / reference.whisper)[1]
        with model_errors_as_user_errors(reference):
            return kind.from_pretrained(None, state_dict=state, **taken)  # type: ignore[no-any-return]
    for path in [] if reference.gguf else weights_in(reference.folder):
        if path.suffix != ".safetensors":
            check_archive(path)
    if reference.gguf or is_standard(reference.folder):
        with model_errors_as_user_errors(reference):
            model, report = kind.from_pretrained(reference.folder, **taken, **source)
        if reference.gguf or not report["missing_keys"]:
            return model, report
    else:
        model = make(kind, taken["config"], reference, taken["dtype"].itemsize)
        report = {"missing_keys": list(model.state_dict())}
    renamed = state_for(model, reference.folder)
    if not renamed:
        return model, report
    with model_errors_as_user_errors(reference):
        return type(model).from_pretrained(None, state_dict=renamed, **taken)  # type: ignore[no-any-return]


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
        with model_errors_as_user_errors(reference):
            config = AutoConfig.from_pretrained(reference.folder, **source)
    with model_errors_as_user_errors(reference):
        said = config.to_dict()
    check_numbers(said, reference)
    return config


def _say(text: str) -> None:
    warnings.warn(text, IsoscopeWarning, stacklevel=3)


def _class_of(config: Any, reference: ModelReference) -> Any:
    """The class whose weights these are, so that the output embedding is there and no weight is missing by design."""
    import transformers

    said, ours = getattr(config, "architectures", None), register()
    named = said[0] if isinstance(said, list) and said and isinstance(said[0], str) else None
    found = None
    if named is not None:
        found = ours.get(named) or (None if hasattr(config, "auto_map") else getattr(transformers, named, None))
    if found is not None and getattr(found, "config_class", None) is type(config):
        return found
    return transformers.AutoModelForCausalLM if reference.gguf else transformers.AutoModel
