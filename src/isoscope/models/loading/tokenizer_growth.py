"""How much longer a tokenizer's own rules may make a text, computed from the rules before they are applied to any text.

A tokenizer.json is a program: ten replacements of "a" by "aa" make every "a" 1,024 times as long, and a hundred of them exhaust memory at
the first text. An upper bound of the growth of each rule, multiplied over all rules, tells such files from real ones.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import warnings
from collections.abc import Iterator
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.models.naming.model_name import ModelReference
from isoscope.trust.safe_io import read_json

MAX_GROWTH = 128
"""How many times its length a text may have after all rules. The rules of T5 and its kin may reach 50, in theory: 33 bytes for one
character, and a mark for two spaces."""
FORMS = {"NFD": 3.0, "NFC": 3.0, "NFKD": 11.0, "NFKC": 11.0, "BertNormalizer": 8.0, "Lowercase": 1.5, "ByteLevel": 2.0}
"""How much longer Unicode's own rules make the worst character, in bytes of UTF-8."""
MAX_DEPTH = 64
"""Levels of sequences within sequences."""
NESTED_CLASS = re.compile(r"\[[^\]]*\[|&&")
"""Character classes within classes, which Python reads differently from the library."""


def check_tokenizer_files(reference: ModelReference) -> None:
    """Refuse a `tokenizer.json` whose rules would multiply a text. Check it before loading it: loading applies the rules to its tokens."""
    if reference.gguf or reference.whisper:
        return
    for path in sorted(reference.folder.glob("tokenizer*.json")):
        try:
            settings = read_json(path)
        except (OSError, ValueError) as error:
            raise IsoscopeError(f"{reference.spec} cannot be loaded: {path.name} cannot be read ({error}).") from error
        if isinstance(settings, dict):
            _refuse_growth(path.name, reference, *(settings.get(name) for name in ("normalizer", "pre_tokenizer", "post_processor")))


def check_tokenizer(tokenizer: Any, reference: ModelReference) -> None:
    """Refuse a tokenizer whose rules would multiply a text, if they come from other files, such as a SentencePiece model."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        parts = (getattr(backend, name, None) for name in ("normalizer", "pre_tokenizer", "post_processor"))
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
