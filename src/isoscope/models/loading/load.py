"""From a reference to a model in memory, with its weights checked against its architecture."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from isoscope.core.errors import IsoscopeError, IsoscopeWarning, import_optional, nearest
from isoscope.core.model_groups import UNTRAINED
from isoscope.core.user_input import check_word, expand_home
from isoscope.models.loading.architectures import ARCHITECTURES, register_architectures
from isoscope.models.loading.family import Family, LoadedModel, family_of
from isoscope.models.loading.file_limits import (
    build_model,
    check_config_numbers,
    check_model_size,
    check_preprocessing,
    check_tokenizer,
    check_tokenizer_files,
)
from isoscope.models.loading.weights import WeightFit, compare_weights, state_for
from isoscope.models.loading.whisper_checkpoint import read_whisper
from isoscope.models.model_errors import model_errors_as_user_errors, own_code_error
from isoscope.models.naming.model_name import ModelReference, read_config
from isoscope.trust.gguf import check_gguf
from isoscope.trust.model_files import is_standard, weights_in
from isoscope.trust.pickles import check_archive
from isoscope.trust.safe_io import parse_json

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
DEVICES = ("auto", "cpu", "cuda", "mps", "xpu")
MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
"""The ways that accelerate knows to spread the layers of a large model over devices, memory and disk."""


def pick_device(device: str) -> torch.device:
    """The device of this name; `auto` picks the fastest one here."""
    if device.partition(":")[0] not in DEVICES:
        check_word("--device must be one of", device, DEVICES)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        picked = torch.device(device)
        torch.empty(1, device=picked)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise IsoscopeError(f"The device {device!r} is not available here; use --device auto or cpu.") from error
    return picked


def load_model(
    reference: ModelReference,
    *,
    dtype: str = "float32",
    device: str = "auto",
    trust_remote_code: bool | Collection[str] = False,
    allow_partial: bool = False,
    seed: int = 0,
    device_map: str | None = None,
    tokenizer: str | None = None,
) -> LoadedModel:
    """Load a model and its tokenizer. Weights that do not fit are named, and refused if a measured state depends on them.

    `trust_remote_code` holds the names of the models whose own code may run; True trusts all of them. `tokenizer`: the folder of a
    tokenizer or processor that is not next to the weights.
    """
    check_word("--dtype must be one of", dtype, DTYPES)
    input_place, spread = pick_device(device), {} if device_map is None else device_map_options(device_map)
    source = _loading_options(reference, trust_remote_code)
    if _needs_own_code(reference):
        _warn(f"{reference.name} brings its own code, and it is run.")
    fit = WeightFit()
    inputs, input_source = reference, source
    if tokenizer is not None:
        inputs = replace(reference, folder=expand_home(tokenizer), gguf=None, whisper=None)
        input_source = {name: value for name, value in source.items() if name != "gguf_file"}
    # Weights that a checkpoint lacks are drawn with the seed, so that they too are the same the next time.
    with _silence_transformers(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = _load_config(reference, source)
        family = family_of(config)
        model_class = _model_class(config, reference)
        # Every file is checked before a library reads it: a few bytes of JSON can ask for terabytes of memory.
        check_preprocessing(inputs)
        check_tokenizer_files(inputs)
        check_model_size(model_class, config, reference, DTYPES[dtype].itemsize)
        if reference.untrained:
            model = build_model(model_class, config, reference, DTYPES[dtype].itemsize).to(DTYPES[dtype])
        else:
            options = {"config": config, "dtype": DTYPES[dtype], "output_loading_info": True, "ignore_mismatched_sizes": True}
            model, report = _load_weights(model_class, reference, options | spread, source)
            fit = compare_weights(model, report)
        with model_errors_as_user_errors(reference):
            processor = family.processor(inputs.folder, config, input_source)
        check_tokenizer(processor, inputs)
    if fit.inside and not allow_partial:
        raise IsoscopeError(f"The weights of {reference.spec} do not fit its architecture: {fit.inside}. To continue, use --allow-partial.")
    if fit.inside:
        _warn(f"the weights of {reference.name} do not fit its architecture: {fit.inside}.")
    if fit.outside:
        _warn(f"{reference.name} lacks weights of a head that no measured state depends on: {fit.outside}.")
    model.eval()
    if spread and not reference.untrained:
        input_place = input_device(model)
    else:
        model.to(input_place)
    return LoadedModel(reference, model, model.base_model, processor, family, input_place, fit)


def family_for(reference: ModelReference, *, trust_remote_code: bool | Collection[str] = False) -> Family:
    """The family of a model that is not loaded yet."""
    with _silence_transformers():
        return family_of(_load_config(reference, _loading_options(reference, trust_remote_code)))


def is_trusted(reference: ModelReference, trust_remote_code: bool | Collection[str]) -> bool:
    """Whether a model's own code may run: trust is given to models one by one, by the names that the user calls them."""
    if isinstance(trust_remote_code, bool):
        return trust_remote_code
    names = {reference.spec.removeprefix(UNTRAINED), reference.name.removeprefix(UNTRAINED)}
    trusted = [trust_remote_code] if isinstance(trust_remote_code, str) else trust_remote_code
    return any(name.removeprefix(UNTRAINED) in names for name in trusted)


@contextlib.contextmanager
def _silence_transformers() -> Iterator[None]:
    """Hide transformers' own bars, reports and warnings; ours say the same in one line, afterwards."""
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
    for warning in caught:
        if issubclass(warning.category, IsoscopeWarning):
            _warn(str(warning.message))


def _warn(text: str) -> None:
    warnings.warn(text, IsoscopeWarning, stacklevel=3)


def _loading_options(reference: ModelReference, trust_remote_code: bool | Collection[str]) -> dict[str, Any]:
    """The options of every `from_pretrained` call for this model; refuse a model whose own code is needed but not trusted."""
    trusted = is_trusted(reference, trust_remote_code)
    options: dict[str, Any] = {"trust_remote_code": trusted, "local_files_only": True}
    if reference.gguf:
        return options | {"gguf_file": reference.gguf}
    if _needs_own_code(reference) and not trusted:
        raise own_code_error(reference)
    return options


def _needs_own_code(reference: ModelReference) -> bool:
    """Whether a checkpoint needs code of its own. Code that comes with an architecture written here is never used."""
    if reference.gguf or reference.whisper:
        return False
    config = read_config(reference.folder)
    return ("auto_map" in config and config.get("model_type") not in list(ARCHITECTURES)) or _names_a_kernel(config)


def _names_a_kernel(config: Any) -> bool:
    """Whether a configuration asks for an attention implementation from a repository, which is code that would be fetched and run."""
    if not isinstance(config, dict):
        return False
    return any(
        _names_a_kernel(value) or (name.endswith("attn_implementation") and "/" in str(value)) or (name == "kernel_config" and bool(value))
        for name, value in config.items()
    )


def _load_config(reference: ModelReference, source: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    if reference.whisper:
        config: Any = read_whisper(reference.folder / reference.whisper)[0]
    else:
        if reference.gguf:
            check_gguf(reference.folder / reference.gguf)
        else:
            stored = read_config(reference.folder)
            check_config_numbers(stored, reference)
            register_architectures(str(stored.get("model_type")))
        with model_errors_as_user_errors(reference):
            config = AutoConfig.from_pretrained(reference.folder, **source)
    with model_errors_as_user_errors(reference):
        values = config.to_dict()
    check_config_numbers(values, reference)  # a GGUF file and defaults bring numbers that config.json does not hold
    return config


def _model_class(config: Any, reference: ModelReference) -> Any:
    """The class the weights were saved from, so that the output embedding is present and no weight is missing by design."""
    import transformers

    names, built_in = getattr(config, "architectures", None), register_architectures(config.model_type)
    name = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None
    model_class = None
    if name is not None:
        model_class = built_in.get(name) or (None if hasattr(config, "auto_map") else getattr(transformers, name, None))
    if model_class is not None and getattr(model_class, "config_class", None) is type(config):
        return model_class
    return transformers.AutoModelForCausalLM if reference.gguf else transformers.AutoModel


def _load_weights(
    model_class: Any, reference: ModelReference, options: dict[str, Any], source: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """A model with its weights, in whatever form they come, and transformers' report on the weights that do not fit."""
    if reference.whisper:
        state = read_whisper(reference.folder / reference.whisper)[1]
        with model_errors_as_user_errors(reference):
            return model_class.from_pretrained(None, state_dict=state, **options)  # type: ignore[no-any-return]
    for path in [] if reference.gguf else weights_in(reference.folder):
        # safetensors cannot hold code or claim more than its bytes; an archive of torch.save can.
        if path.suffix != ".safetensors":
            check_archive(path)
    if reference.gguf or is_standard(reference.folder):
        with model_errors_as_user_errors(reference):
            model, report = model_class.from_pretrained(reference.folder, **options, **source)
        if reference.gguf or not report["missing_keys"]:
            return model, report
    else:
        model = build_model(model_class, options["config"], reference, options["dtype"].itemsize)
        report = {"missing_keys": list(model.state_dict())}
    # Weights are missing: a training loop may have saved them under longer names (`module.`, `_orig_mod.`, `model.`).
    renamed = state_for(model, reference.folder)
    if not renamed:
        return model, report
    with model_errors_as_user_errors(reference):
        return type(model).from_pretrained(None, state_dict=renamed, **options)  # type: ignore[no-any-return]


def device_map_options(text: str) -> dict[str, Any]:
    """The options of `from_pretrained` for a map: a name that accelerate knows, or a JSON object with the device of each module.

    >>> device_map_options('{"model.embed_tokens": 0, "model.layers": "cpu"}')["device_map"]
    {'model.embed_tokens': 0, 'model.layers': 'cpu'}
    """
    import_optional("accelerate", "--device-map")
    devices: Any = text
    if text.startswith("{"):
        try:
            devices = parse_json(text)
        except ValueError as error:
            raise IsoscopeError(f"--device-map is not an object in JSON ({error}).") from error
    elif text not in MAPS:
        raise IsoscopeError(f"--device-map takes {', '.join(MAPS)} or an object in JSON; got {text!r}{nearest(text, list(MAPS)) or '.'}")
    options = {"device_map": devices}
    if isinstance(devices, str) or "disk" in devices.values():
        # For layers that fit neither on devices nor in memory; it goes with the process' other temporary files.
        options["offload_folder"] = tempfile.mkdtemp(prefix="isoscope-offload-")
    return options


def input_device(model: Any) -> torch.device:
    """The device on which a spread model expects its input."""
    # accelerate lists modules in the order of the model, so the first device is that of the embeddings.
    places = [place for place in getattr(model, "hf_device_map", {}).values() if place != "disk"]
    return torch.device(places[0] if places else "cpu")


def weight_of(module: Any) -> Tensor:
    """A module's weight, even if accelerate keeps it on disk until it is needed."""
    weight: Tensor = module.weight
    on_disk = getattr(getattr(module, "_hf_hook", None), "weights_map", None)
    return on_disk["weight"] if weight.is_meta and on_disk is not None else weight
