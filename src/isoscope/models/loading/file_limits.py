"""Limits of what a model's files may ask for, checked before a library acts on them: sizes of a network, and rules of a tokenizer.

A few bytes of JSON can describe terabytes of weights. A tokenizer.json is a program: ten replacements of "a" by "aa" make every "a" 1,024
times as long, and a hundred of them exhaust memory at the first text.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import re
import warnings
from collections.abc import Callable, Iterator
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import torch
from torch import nn

from isoscope.core.errors import IsoscopeError
from isoscope.core.machine import check_room, memory_left
from isoscope.models.model_errors import HookGuard, is_raised_by_us, model_errors_as_user_errors
from isoscope.models.naming.model_name import ModelReference, model_bytes, read_settings
from isoscope.trust.model_files import weights_in

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

RULES = ("normalizer", "pre_tokenizer", "post_processor")
"""The parts of a tokenizer that can lengthen a text."""
MAX_GROWTH = 128
"""How many times its length a text may have after all rules. The rules of T5 and its kin may reach 50, in theory: 33 bytes for one
character, and a mark for two spaces."""
FORMS = {"NFD": 3.0, "NFC": 3.0, "NFKD": 11.0, "NFKC": 11.0, "BertNormalizer": 8.0, "Lowercase": 1.5, "ByteLevel": 2.0}
"""How much longer Unicode's own rules make the worst character, in bytes of UTF-8."""
MAX_DEPTH = 64
"""Levels of sequences within sequences."""
NESTED_CLASS = re.compile(r"\[[^\]]*\[|&&")
"""Character classes within classes, which Python reads differently from the library."""


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
        for name, value in _named_integers(read_settings(path) if path.is_file() else None):
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


def check_tokenizer_files(reference: ModelReference) -> None:
    """Refuse a `tokenizer.json` whose rules would multiply a text. Check it before loading it: loading applies the rules to its tokens."""
    if reference.gguf or reference.whisper:
        return
    for path in sorted(reference.folder.glob("tokenizer*.json")):
        settings = read_settings(path)
        _refuse_growth(path.name, reference, *(settings.get(name) for name in RULES))


def check_tokenizer(tokenizer: Any, reference: ModelReference) -> None:
    """Refuse a tokenizer whose rules would multiply a text, if they come from other files, such as a SentencePiece model."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        parts = (getattr(backend, name, None) for name in RULES)
        _refuse_growth("tokenizer", reference, *(json.loads(part.__getstate__()) if part is not None else None for part in parts))


def _refuse_growth(where: str, reference: ModelReference, normalizer: Any, pre_tokenizer: Any, post_processor: Any) -> None:
    growth = normalizer_growth(normalizer) * pre_tokenizer_growth(pre_tokenizer) * template_growth(post_processor)
    if growth > MAX_GROWTH:
        raise IsoscopeError(
            f"The rules in the {where} of {reference.spec} may make a text {min(growth, 1e18):,.0f} times as long, and {MAX_GROWTH} times "
            "is the limit; remove replacements from its normalizer."
        )


def normalizer_growth(rules: Any) -> float:
    """How many times longer a normalizer may make a text.

    Unicode's own forms count only after a rule that writes text of its own. They hardly lengthen ordinary text, but such a rule can write
    the characters that they lengthen most.

    >>> normalizer_growth({"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 10})
    1024.0
    >>> normalizer_growth({"type": "NFKC"}), normalizer_growth({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"})
    (1.0, 1.5)
    """
    growth = 1.0
    for rule in _flatten_rules(rules):
        kind = rule.get("type")
        if kind == "Replace":
            growth *= _replacement_growth(rule)
        elif kind == "Prepend":
            growth *= 1 + _byte_length(rule.get("prepend"))  # before every stretch between two added tokens
        elif kind == "Precompiled":
            growth *= _longest_replacement(rule.get("precompiled_charsmap"))
        elif growth > 1:
            growth *= FORMS.get(str(kind), 1.0)
    return growth


def pre_tokenizer_growth(rules: Any) -> float:
    """How many times longer a pre-tokenizer may make a text. One rule that marks words is usual; a second one marks the marks."""
    marking = sum(rule.get("type") in ("Metaspace", "ByteLevel") for rule in _flatten_rules(rules))
    return float(4 ** min(max(0, marking - 1), MAX_DEPTH))


def template_growth(rules: Any) -> float:
    """How often the templates that put special tokens around a text repeat its tokens."""
    growth = 1.0
    for rule in _flatten_rules(rules):
        template = rule.get("single") if rule.get("type") == "TemplateProcessing" else None
        copies = sum(isinstance(part, dict) and "Sequence" in part for part in template) if isinstance(template, list) else 1
        growth *= max(1, copies)
    return growth


def _flatten_rules(rules: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Rules one by one; a sequence is replaced by its rules."""
    if not isinstance(rules, dict):
        return
    inner = next((rules[name] for name in ("normalizers", "pretokenizers", "processors") if isinstance(rules.get(name), list)), None)
    if inner is None:
        yield rules
    elif depth < MAX_DEPTH:
        for rule in inner:
            yield from _flatten_rules(rule, depth + 1)
    else:
        raise IsoscopeError(f"A tokenizer has rules within rules, more than {MAX_DEPTH} deep; write them in one sequence.")


def _replacement_growth(rule: dict[str, Any]) -> float:
    pattern = rule.get("pattern")
    pattern = pattern if isinstance(pattern, dict) else {}
    # The growth is largest for the shortest match: each of its bytes becomes `written / shortest` bytes.
    shortest = _byte_length(pattern.get("String")) or _shortest_match(str(pattern.get("Regex", "")))
    written = _byte_length(rule.get("content"))
    return max(1.0, written / shortest) if shortest else 1.0 + written  # a pattern that matches nothing matches between any two characters


def _shortest_match(pattern: str) -> int:
    """The length of the shortest text that a regular expression matches; 0, the worst case, if Python may read it differently."""
    if NESTED_CLASS.search(pattern):
        return 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return int(_parser.parse(pattern).getwidth()[0])
    except (re.error, ValueError, OverflowError, RecursionError, Warning):
        return 0


def _byte_length(text: Any) -> int:
    return len(text.encode("utf-8", "replace")) if isinstance(text, str) else 0


def _longest_replacement(table: Any) -> float:
    """Bytes of the longest text in a table of SentencePiece, which holds the length of an index, the index, and texts that end in zeros."""
    try:
        raw = base64.b64decode(table) if isinstance(table, str) else bytes(table or b"")
    except (binascii.Error, TypeError, ValueError):
        return 1.0  # the library will not read it either
    texts = raw[4 + int.from_bytes(raw[:4], "little") :]
    return float(max(1, *map(len, texts.split(b"\0"))))
