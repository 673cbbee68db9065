"""Tokenizers: where they come from, and which special tokens they put around a text."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from isoscope.core.bounded import read_json
from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.models.formats.gguf import special_tokens

VOCABULARIES = ("tokenizer.json", "vocab*", "*.model", "*.tiktoken", "tekken.json", "merges.txt")
"""What files with a vocabulary are called."""
ANY_CLASS = ("tokenizer.json", "tokenizer.model", "*.tiktoken", "tekken.json")
"""Those from which transformers makes tokenizers of any class."""
PROBES = ("a", "A", "1", ".")
"""Texts by which it is found what a tokenizer puts around a text; one of them is a token in nearly every vocabulary."""
LONGEST_NAME = 40
"""Characters of a token's name that are shown."""


def tokenizer(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    """The tokenizer of a GGUF file, or the one in the folder of the weights, with the special tokens that these files ask for."""
    from transformers import AutoTokenizer

    if "gguf_file" in source:
        return _gguf_tokenizer(Path(folder) / source["gguf_file"], source)
    try:
        found = AutoTokenizer.from_pretrained(folder, **source)
    except Exception as error:
        if not any(next(Path(folder).glob(pattern), None) for pattern in VOCABULARIES):
            raise _no_tokenizer(folder) from error
        raise
    # Where the files are missing, transformers makes a tokenizer that knows special tokens only, or nothing but unknown words.
    if len(found) <= len(found.all_special_ids) or not _has_vocabulary(found, Path(folder)):
        raise _no_tokenizer(folder)
    _follow_settings(found, Path(folder))
    return found


def _has_vocabulary(found: Any, folder: Path) -> bool:
    """Whether a folder holds a file from which a tokenizer of this class reads its vocabulary; some classes need none."""
    names = set(getattr(found, "vocab_files_names", {}).values())
    own_code = not type(found).__module__.startswith("transformers.")  # its files may have any names
    return not names or own_code or any(next(folder.glob(pattern), None) for pattern in (*names, *ANY_CLASS))


def _no_tokenizer(folder: Any) -> IsoscopeError:
    return IsoscopeError(
        f"{folder} has no tokenizer that fits its model: copy tokenizer.json and tokenizer_config.json of the model that it was trained "
        f"from into it, or call save_pretrained({str(folder)!r}) on its tokenizer."
    )


def _gguf_tokenizer(path: Path, source: dict[str, Any]) -> Any:
    """The tokenizer of a GGUF file, with the special tokens that the file asks for: transformers builds it without them."""
    from transformers import AutoTokenizer

    before, after = special_tokens(path)
    # transformers would prefer a tokenizer.json in the same folder to what the file says. In this folder there is none.
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / path.name).symlink_to(path.resolve())
        found = AutoTokenizer.from_pretrained(folder, **source)
    _place_tokens(found, [] if before is None else [before], [] if after is None else [after])
    return found


def _follow_settings(found: Any, folder: Path) -> None:
    """Follow `add_bos_token` and `add_eos_token` of tokenizer_config.json: transformers ignores them next to a tokenizer.json."""
    path = folder / "tokenizer_config.json"
    if not getattr(found, "is_fast", False) or not path.is_file():
        return
    try:
        settings = read_json(path)
    except (OSError, ValueError) as error:
        raise IsoscopeError(f"{path} cannot be read: {error}; copy or download it again.") from error
    if not isinstance(settings, dict):
        return
    before, after = tokens_around(found)
    bos, eos = found.bos_token_id, found.eos_token_id
    wanted_before = _with_token(before, bos, settings.get("add_bos_token"), first=True)
    wanted_after = _with_token(after, eos, settings.get("add_eos_token"), first=False)
    if (wanted_before, wanted_after) == (before, after):
        return
    _place_tokens(found, wanted_before, wanted_after)
    now, then = (
        show_around(token_names(found, one), token_names(found, two)) for one, two in ((wanted_before, wanted_after), (before, after))
    )
    warnings.warn(
        f"{path} and tokenizer.json ask for different special tokens; {now} is fed, as the first says, not {then}.",
        IsoscopeWarning,
        stacklevel=2,
    )


def _with_token(tokens: list[int], token: int | None, wanted: Any, *, first: bool) -> list[int]:
    """The tokens on one side of a text with or without one at the outer end, as a setting says; unchanged where it does not.

    >>> _with_token([], 1, True, first=True), _with_token([1], 1, False, first=True), _with_token([5], 2, True, first=False)
    ([1], [], [5, 2])
    >>> _with_token([5], 1, None, first=True), _with_token([1], 1, True, first=True), _with_token([5], 1, False, first=True)
    ([5], [1], [5])
    """
    if token is None or not isinstance(wanted, bool) or wanted == (token in tokens):
        return tokens
    if not wanted:
        return [one for one in tokens if one != token]
    return [token, *tokens] if first else [*tokens, token]


def _place_tokens(found: Any, before: list[int], after: list[int]) -> None:
    """Make a tokenizer put these tokens, and no others, around a text."""
    from tokenizers.processors import TemplateProcessing

    names = {token: f"t{token}" for token in (*before, *after)}  # by id: the name of a token may hold what a template cannot
    found.backend_tokenizer.post_processor = TemplateProcessing(
        single=[f"{names[token]}:0" for token in before] + ["$A:0"] + [f"{names[token]}:0" for token in after],
        special_tokens=[{"id": name, "ids": [token], "tokens": [found.convert_ids_to_tokens(token)]} for token, name in names.items()],
    )


def tokens_around(found: Any) -> tuple[list[int], list[int]]:
    """The special tokens that a tokenizer puts before and after a text."""
    for text in PROBES:
        inner, whole = found(text, add_special_tokens=False)["input_ids"], found(text)["input_ids"]
        for start in range(len(whole) - len(inner) + 1) if inner else ():
            if whole[start : start + len(inner)] == inner:
                return whole[:start], whole[start + len(inner) :]
    return found("")["input_ids"], []  # it has a token for none of these texts


def token_names(found: Any, tokens: Iterable[int]) -> list[str]:
    """Tokens by name; one that the tokenizer does not know, or whose name cannot be printed, by its number."""
    names = [(token, found.convert_ids_to_tokens(token)) for token in tokens]
    return [name[:LONGEST_NAME] if isinstance(name, str) and name.isprintable() else f"<{token}>" for token, name in names]


def show_around(before: list[str], after: list[str]) -> str:
    """What is fed around a text, which is shown as an ellipsis.

    >>> show_around(["[CLS]"], ["[SEP]"]), show_around(["<s>"], []), show_around([], [])
    ('[CLS] … [SEP]', '<s> …', 'none')
    """
    return " ".join([*before, "…", *after]) if before or after else "none"
