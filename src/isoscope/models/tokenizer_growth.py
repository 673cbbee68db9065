"""How much longer a tokenizer's own rules may make a text, told from the rules before any text is given to them."""

from __future__ import annotations

import base64
import binascii
import json
import re
import warnings
from collections.abc import Iterator
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from isoscope.core.bounded import read_json
from isoscope.core.errors import IsoscopeError
from isoscope.models.reference import ModelReference

MOST_GROWTH = 128
"""Times its length that a text may have after the rules. Those of T5 and its kin may reach 50, in theory: 33 bytes for one character, and
a mark for two spaces."""
FORMS = {"NFD": 3.0, "NFC": 3.0, "NFKD": 11.0, "NFKC": 11.0, "BertNormalizer": 8.0, "Lowercase": 1.5, "ByteLevel": 2.0}
"""How much longer Unicode's own rules make the worst character, in bytes of UTF-8."""
DEEPEST = 64
"""Rules within rules."""
NESTED_CLASS = re.compile(r"\[[^\]]*\[|&&")
"""Classes of characters within classes, which Python reads in another way than the library."""


def check_tokenizer_files(reference: ModelReference) -> None:
    """Refuse a `tokenizer.json` whose rules would multiply a text. This comes before it is loaded: loading applies them to its tokens."""
    if reference.gguf or reference.whisper:
        return
    for path in sorted(reference.folder.glob("tokenizer*.json")):
        try:
            found = read_json(path)
        except (OSError, ValueError) as error:
            raise IsoscopeError(f"{reference.spec} cannot be loaded: {path.name} cannot be read ({error}).") from error
        if isinstance(found, dict):
            _refuse_growth(path.name, reference, *(found.get(name) for name in ("normalizer", "pre_tokenizer", "post_processor")))


def check_tokenizer(tokenizer: Any, reference: ModelReference) -> None:
    """The same for rules that were made from other files, such as a SentencePiece model."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        parts = (getattr(backend, name, None) for name in ("normalizer", "pre_tokenizer", "post_processor"))
        _refuse_growth("tokenizer", reference, *(json.loads(part.__getstate__()) if part is not None else None for part in parts))


def _refuse_growth(where: str, reference: ModelReference, normalizer: Any, pre_tokenizer: Any, post_processor: Any) -> None:
    grown = normalizer_growth(normalizer) * pre_tokenizer_growth(pre_tokenizer) * template_growth(post_processor)
    if grown > MOST_GROWTH:
        raise IsoscopeError(
            f"The rules in the {where} of {reference.spec} may make a text {min(grown, 1e18):,.0f} times as long, and {MOST_GROWTH} times "
            "is the limit; remove replacements from its normalizer."
        )


def normalizer_growth(rules: Any) -> float:
    """How many times longer a normalizer may make a text.

    Unicode's own forms count only behind a rule that writes text of its own: of ordinary text they make little more, but such a rule can
    write the characters of which they make most.

    >>> normalizer_growth({"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 10})
    1024.0
    >>> normalizer_growth({"type": "NFKC"}), normalizer_growth({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"})
    (1.0, 1.5)
    """
    grown = 1.0
    for step in _steps(rules):
        kind = step.get("type")
        if kind == "Replace":
            grown *= _replacement(step)
        elif kind == "Prepend":
            grown *= 1 + _length(step.get("prepend"))  # in front of every stretch between two added tokens
        elif kind == "Precompiled":
            grown *= _longest_replacement(step.get("precompiled_charsmap"))
        elif grown > 1:
            grown *= FORMS.get(str(kind), 1.0)
    return grown


def pre_tokenizer_growth(rules: Any) -> float:
    """How many times longer a pre-tokenizer may make a text. One rule that marks words is usual; a second one marks the marks."""
    marking = sum(step.get("type") in ("Metaspace", "ByteLevel") for step in _steps(rules))
    return float(4 ** min(max(0, marking - 1), DEEPEST))


def template_growth(rules: Any) -> float:
    """How often the tokens of a text are repeated by the templates that put special tokens around it."""
    grown = 1.0
    for step in _steps(rules):
        template = step.get("single") if step.get("type") == "TemplateProcessing" else None
        copies = sum(isinstance(part, dict) and "Sequence" in part for part in template) if isinstance(template, list) else 1
        grown *= max(1, copies)
    return grown


def _steps(rules: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Rules one by one, those of a sequence in its place."""
    if not isinstance(rules, dict):
        return
    inner = next((rules[name] for name in ("normalizers", "pretokenizers", "processors") if isinstance(rules.get(name), list)), None)
    if inner is None:
        yield rules
    elif depth < DEEPEST:
        for one in inner:
            yield from _steps(one, depth + 1)
    else:
        raise IsoscopeError(f"A tokenizer has rules within rules, more than {DEEPEST} deep; write them in one sequence.")


def _replacement(step: dict[str, Any]) -> float:
    pattern = step.get("pattern")
    found: dict[str, Any] = pattern if isinstance(pattern, dict) else {}
    shortest = _length(found.get("String")) or _shortest_match(str(found.get("Regex", "")))
    written = _length(step.get("content"))
    return max(1.0, written / shortest) if shortest else 1.0 + written  # what matches nothing is written between any two characters


def _shortest_match(pattern: str) -> int:
    """Characters of the shortest text that a regular expression matches; 0 where Python may read it differently than the library."""
    if NESTED_CLASS.search(pattern):
        return 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return int(_parser.parse(pattern).getwidth()[0])
    except (re.error, ValueError, OverflowError, RecursionError, Warning):
        return 0


def _length(text: Any) -> int:
    return len(text.encode("utf-8", "replace")) if isinstance(text, str) else 0


def _longest_replacement(table: Any) -> float:
    """Bytes of the longest text in a table of SentencePiece: the length of an index, the index, and texts that end in zeros."""
    try:
        raw = base64.b64decode(table) if isinstance(table, str) else bytes(table or b"")
    except (binascii.Error, TypeError, ValueError):
        return 1.0  # the library will not read it either
    texts = raw[4 + int.from_bytes(raw[:4], "little") :]
    return float(max(1, *map(len, texts.split(b"\0"))))
