"""Measure a model of transformers or sentence-transformers that is in memory, with its tokenizer or processor, over sources of items."""

from __future__ import annotations

import gc
import hashlib
import json
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from isoscope.core.errors import IsoscopeError
from isoscope.core.progress import Progress
from isoscope.core.user_input import Name, list_names
from isoscope.measuring.cell import measure_model
from isoscope.measuring.model_feeder import lend_model
from isoscope.measuring.module_feeder import add_to_digest, evaluating
from isoscope.measuring.options import Options
from isoscope.measuring.pooling import pooling_of_modules
from isoscope.measuring.task import Sources, cell_identity
from isoscope.models.loading.family import LoadedModel, family_of
from isoscope.models.loading.weights import WeightFit
from isoscope.models.naming.model_name import ModelReference
from isoscope.runs.run import Run

OF_LOADING = ("dtype", "device", "device_map", "trust_remote_code", "allow_partial", "channels")
"""The options that say how a model is loaded, which does not apply to one that is in memory."""


@dataclass(frozen=True)
class ModelObject:
    """A model in memory, and what makes its inputs."""

    model: Any
    processor: Any
    longest: int | None = None
    """The longest sequence that it is used with."""
    modules: tuple[tuple[str, Callable[[], Any]], ...] = ()
    """The class and the settings of each module behind it, as sentence-transformers chains them."""


def takes_sources(model: Any, data: Any, tokenizer: Any, processor: Any) -> bool:
    """Whether a module is to be fed items of sources, and not batches: it comes with what makes its inputs."""
    named = isinstance(data, str | Path) or (isinstance(data, list | tuple) and bool(data) and all(isinstance(x, str | Path) for x in data))
    return tokenizer is not None or processor is not None or (named and _is_sentence_transformer(model))


def measure_object(
    model: Any,
    data: Name | Iterable[Name],
    run: Run,
    options: Options,
    progress: Progress,
    *,
    given: Iterable[str] = (),
    tokenizer: Any = None,
    processor: Any = None,
    name: str | None = None,
    column: str | None = None,
) -> None:
    """Measure a model as it is, in its own type and on its own device. `given`: the names of the options that the user chose."""
    for option in given:
        if option in OF_LOADING:
            raise IsoscopeError(f"The option {option!r} does not apply to a model in memory, which is measured as it is.")
    if tokenizer is not None and processor is not None:
        raise IsoscopeError("A model reads with a tokenizer or with a processor; give one of the two.")
    unwrapped = unwrap(model, tokenizer if processor is None else processor)
    whole = unwrapped.model
    if not isinstance(whole, torch.nn.Module) or not hasattr(getattr(whole, "config", None), "model_type"):
        raise IsoscopeError(
            f"A {type(whole).__name__} is not a model of transformers, so nothing is known about its inputs; measure it over batches: "
            "isoscope.measure(module, batches)."
        )
    family = family_of(whole.config)
    made_by = _choose_part(unwrapped.processor, family.source)
    base = whole.base_model
    loaded_from = str(getattr(whole.config, "_name_or_path", "") or "")
    label = name or Path(loaded_from).name or type(whole).__name__
    folder = Path(loaded_from or f"<{label}>")  # an empty path would be the current folder, which may hold another model
    pooling = pooling_of_modules(unwrapped.modules, label) if options.pool == "own" else None
    digest = _digest(whole, made_by, f"{pooling}")
    reference = ModelReference(label, label, folder, None, False, digest[:12], digest)
    parameter = next(base.parameters())
    options = replace(options, dtype=str(parameter.dtype).removeprefix("torch."), seq_len=options.seq_len or unwrapped.longest)
    sources = Sources(tuple(map(str, list_names(data))), column, (label,))
    source = sources.of_modality(label, family.source)
    loaded = LoadedModel(reference, whole, base, made_by, family, parameter.device, WeightFit(), borrowed=True, pooling=pooling)
    run.prepare()
    with evaluating(whole), lend_model(reference, options, loaded):
        measure_model(run, reference, source, options, progress, identity=cell_identity(reference, source, options))
    gc.collect()  # a model and its hooks hold each other


def unwrap(model: Any, processor: Any) -> ModelObject:
    """The model of transformers in a compiled or wrapped one, and what makes its inputs."""
    model = getattr(model, "_orig_mod", model)
    if not _is_sentence_transformer(model):
        return ModelObject(model, processor)
    longest = getattr(model, "max_seq_length", None)
    first, *others = model
    inner = getattr(first.auto_model, "_orig_mod", first.auto_model)
    modules = tuple((type(module).__name__, getattr(module, "get_config_dict", dict)) for module in others)
    return ModelObject(inner, model.tokenizer if processor is None else processor, longest if isinstance(longest, int) else None, modules)


def _is_sentence_transformer(model: Any) -> bool:
    """Whether a model is a chain of modules of which the first holds a model of transformers."""
    if not hasattr(model, "tokenizer") or not hasattr(model, "__getitem__"):
        return False
    return len(model) > 0 and hasattr(model[0], "auto_model")


def _choose_part(processor: Any, modality: str) -> Any:
    """The part of a processor that reads this modality; a processor of several holds a tokenizer, a feature extractor and so on."""
    part = {"text": "tokenizer", "speech": "feature_extractor", "images": "image_processor"}[modality]
    chosen = getattr(processor, part, processor)
    wanted = {"text": "num_special_tokens_to_add", "speech": "sampling_rate", "images": "__call__"}[modality]
    if not hasattr(chosen, wanted):
        option = "tokenizer=…" if modality == "text" else "processor=…"
        raise IsoscopeError(f"The model reads {modality}; give what makes its input with {option}, not a {type(processor).__name__}.")
    return chosen


def _digest(model: Any, processor: Any, more: str) -> str:
    """A hash of everything that determines what is computed: class, configuration, weights, what makes the inputs, and `more`."""
    config = {key: value for key, value in model.config.to_dict().items() if key not in ("_name_or_path", "transformers_version")}
    digest = hashlib.sha256(f"{type(model).__name__} {more} {json.dumps(config, sort_keys=True, default=str)}".encode())
    add_to_digest(digest, model.state_dict())
    backend = getattr(processor, "backend_tokenizer", None)
    if backend is not None:
        # Truncation and padding are those of the last call, and every call of ours sets them.
        rules = json.loads(backend.to_str()) | {"truncation": None, "padding": None}
        digest.update(json.dumps(rules, sort_keys=True).encode())
    elif hasattr(processor, "to_json_string"):
        digest.update(processor.to_json_string().encode())
    else:
        try:
            digest.update(pickle.dumps(processor))
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise IsoscopeError(f"A {type(processor).__name__} cannot be pickled, so that its results could not be told apart.") from error
    return digest.hexdigest()
