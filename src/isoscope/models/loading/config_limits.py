"""Whether a configuration is plausible, checked before memory is taken for the model it describes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from isoscope.core.errors import IsoscopeError
from isoscope.core.memory import check_room, memory_left
from isoscope.models.loading.model_errors import is_raised_by_us, model_errors_as_user_errors
from isoscope.models.naming.model_name import ModelReference, model_bytes
from isoscope.models.tapping.hook_guard import HookGuard
from isoscope.trust.model_files import weights_in
from isoscope.trust.safe_io import read_json

COUNTS = re.compile(r"(?:layers?|depths?|blocks?|heads?|heads_kv|stages|experts|groups|repeats|copies)$")
"""Names of counts of things that are built one by one: each costs time and memory even if its weights do not."""
SIZES = re.compile(r"size|dim|width|vocab|position|labels|channels|state$|model$|n_ctx|embd")
MAX_COUNT, MAX_SIZE, MAX_LABELS = 1 << 14, 1 << 31, 1 << 20
"""Limits of a count, of a size, and of labels, which transformers lists by name."""
MAX_IMAGE_SIDE = 1 << 12
MAX_PREPROCESSING = dict.fromkeys(("size", "image_size", "crop_size", "height", "width", "shortest_edge"), MAX_IMAGE_SIDE)
MAX_PREPROCESSING |= {"sampling_rate": 768_000, "feature_size": 1 << 12, "n_fft": 1 << 16, "chunk_length": 3600, "n_samples": 1 << 28}
MAX_PREPROCESSING |= {"extra_ids": 1 << 16, "max_word_length": 1 << 12}
"""Limits of the numbers that say how inputs are prepared: sides of an image, clips and their spectra, tokens and words."""
NUMBERS_PER_BYTE = 32
"""Numbers that a model may have for each byte of its checkpoint: weights of one bit give eight, tied weights and buffers some more."""
FREE_NUMBERS = 1 << 26
"""Numbers that any checkpoint may have, whatever its size."""
FREE_PARTS, BYTES_PER_PART = 1 << 14, 16
"""Modules and tensors that any checkpoint may have, and the bytes that pay for one more (the name and place of a tensor take sixty)."""
MAX_PARTS = 1 << 19
"""Modules and tensors of a configuration without weights. The largest mixtures of experts have a few hundred thousand."""


def require_count(value: Any, name: str, spec: object, least: int = 1) -> int:
    """Return a count from a configuration; raise an `IsoscopeError` if it is no whole number of at least `least`.

    >>> require_count(3, "num_hidden_layers", "gpt2")
    3
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise IsoscopeError(f"{name} of {spec} must be a whole number of at least {least}; it is {value!r:.60}. Correct its configuration.")
    return value


def check_config_numbers(config: dict[str, Any], reference: ModelReference) -> None:
    """Refuse counts and sizes that no model has: millions of layers would be built one by one, for hours."""
    for name, value in _named_integers(config):
        if name == "image_size":
            limit = MAX_IMAGE_SIDE
        elif name.endswith("labels"):
            limit = MAX_LABELS
        elif COUNTS.search(name):
            limit = MAX_COUNT
        else:
            limit = MAX_SIZE if SIZES.search(name) else value
        _check_limit("configuration", name, value, limit, reference)


def check_preprocessing(reference: ModelReference) -> None:
    """Refuse sizes of images, clips and tokens that no model uses, in the files next to the weights."""
    for path in (reference.folder / f"{kind}_config.json" for kind in ("tokenizer", "preprocessor", "processor")):
        try:
            settings = read_json(path) if path.is_file() else None
        except (OSError, ValueError) as error:
            raise IsoscopeError(f"{path} cannot be read: {error}.") from error
        for name, value in _named_integers(settings):
            _check_limit(path.name, name, value, MAX_PREPROCESSING.get(name, value), reference)


def _check_limit(where: str, name: str, value: int, limit: int, reference: ModelReference) -> None:
    if value > limit:
        raise IsoscopeError(f"{name[:60]} = {value:,} in the {where} of {reference.spec} exceeds the limit of {limit:,}; correct it.")


def _named_integers(value: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Every integer in nested objects and lists, with the name it stands under."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _named_integers(inner, str(key))
    elif isinstance(value, list | tuple):
        for inner in value[:1000]:
            yield from _named_integers(inner, name)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield name, value


def check_model_size(model_class: Any, config: Any, reference: ModelReference, itemsize: int) -> None:
    """Refuse a model whose configuration describes far more than its weights hold, or, at initialisation, more than fits into memory.

    The model is built on the meta device, where tensors take no memory.
    """
    limits = SizeLimits(reference, itemsize)
    try:
        with limits.counting(), torch.device("meta"):
            model = _construct(model_class, config)
        limits.numbers = sum(tensor.numel() for tensor in [*model.parameters(), *model.buffers()])  # some are tied only at the end
    except IsoscopeError:
        raise
    except Exception as error:
        # An architecture refuses a bad configuration with any type of exception, and some cannot be built on the meta device at all.
        # Both are judged by the parts that were counted so far; the real build that follows reports the error itself.
        if is_raised_by_us(error):
            raise
    limits.check()


def build_model(model_class: Any, config: Any, reference: ModelReference, itemsize: int) -> Any:
    """Build the model at initialisation; refuse it as soon as it has more numbers than `check_model_size` allows."""
    limits = SizeLimits(reference, itemsize)
    with limits.counting(limits.check), model_errors_as_user_errors(reference):
        return _construct(model_class, config)


def _construct(model_class: Any, config: Any) -> Any:
    return model_class.from_config(config) if hasattr(model_class, "from_config") else model_class(config)


class SizeLimits:
    """How much a model may have, given the size of its weights and the memory that is free now."""

    def __init__(self, reference: ModelReference, itemsize: int) -> None:
        self.reference, self.itemsize = reference, itemsize
        self.has_no_weights = reference.untrained and not (reference.gguf or reference.whisper or weights_in(reference.folder))
        self.file_size, self.free_memory = model_bytes(reference), memory_left()
        self.parts = self.numbers = 0

    def check(self) -> None:
        """Raise an `IsoscopeError` if the weights cannot hold this many numbers, or if memory cannot."""
        if not self.has_no_weights and self.numbers > FREE_NUMBERS + NUMBERS_PER_BYTE * self.file_size:
            raise self._too_large(self.numbers, "numbers")
        if self.reference.untrained:
            check_room(self.reference.spec, self.numbers * self.itemsize, "choose a smaller model", self.free_memory)

    def _too_large(self, count: int, what: str) -> IsoscopeError:
        if self.has_no_weights:
            return IsoscopeError(f"The configuration of {self.reference.spec} describes {count:,} {what}; correct it.")
        return IsoscopeError(
            f"The weights of {self.reference.spec} do not fit its architecture: its configuration describes {count:,} {what}, and its "
            f"files have {self.file_size:,} bytes; copy or download them again."
        )

    @contextlib.contextmanager
    def counting(self, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Count parts and numbers of models that are built in this context; `check` is called for each tensor before it is filled."""
        max_parts = MAX_PARTS if self.has_no_weights else FREE_PARTS + self.file_size // BYTES_PER_PART
        counted: dict[int, Any] = {}  # a tied tensor is registered twice and counted once; holding it keeps its id from being reused

        def add(module: Any, name: str, part: Any) -> None:
            self.parts += 1
            if self.parts > max_parts:
                raise self._too_large(self.parts, "parts and more")
            if isinstance(part, torch.Tensor) and id(part) not in counted:
                counted[id(part)] = part
                self.numbers += part.numel()
                check()

        registry, guard = nn.modules.module, HookGuard()
        guarded_add = guard.wrap(add)
        hooks = [
            registry.register_module_parameter_registration_hook(guarded_add),
            registry.register_module_buffer_registration_hook(guarded_add),
            registry.register_module_module_registration_hook(guarded_add),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            guard.raise_own_error()
