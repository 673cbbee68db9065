"""Tokenizers: where they come from, and which special tokens they put around a text."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.models.naming.model_name import read_settings
from isoscope.trust.gguf import special_tokens

VOCABULARIES = ("tokenizer.json", "vocab*", "*.model", "*.tiktoken", "tekken.json", "merges.txt")
"""Names of files with a vocabulary."""
ANY_CLASS = ("tokenizer.json", "tokenizer.model", "*.tiktoken", "tekken.json")
"""Those from which transformers makes tokenizers of any class."""
PROBES = ("a", "A", "1", ".")
"""Texts to find out what a tokenizer puts around a text; nearly every vocabulary has a token for one of them."""
LONGEST_NAME = 40
"""Characters of a token's name that are shown."""


def load_tokenizer(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    """Load the tokenizer of a GGUF file, or the one in the folder of the weights, with the special tokens that these files ask for."""
    from transformers import AutoTokenizer

    if "gguf_file" in source:
        return _load_gguf_tokenizer(Path(folder) / source["gguf_file"], source)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **source)
    except Exception as error:
        # The library fails in many ways if there is nothing to read. Any other failure is the caller's to report.
        if not _has_any(Path(folder), VOCABULARIES):
            raise _no_tokenizer(folder) from error
        raise
    # If files are missing, transformers makes a tokenizer that knows special tokens only, or nothing but unknown words.
    if len(tokenizer) <= len(tokenizer.all_special_ids) or not _has_vocabulary(tokenizer, Path(folder)):
        raise _no_tokenizer(folder)
    _follow_settings(tokenizer, Path(folder))
    return tokenizer


def _has_any(folder: Path, patterns: Iterable[str]) -> bool:
    return any(next(folder.glob(pattern), None) for pattern in patterns)


def _has_vocabulary(tokenizer: Any, folder: Path) -> bool:
    """Whether a folder holds a file from which a tokenizer of this class reads its vocabulary; some classes need none."""
    names = set(getattr(tokenizer, "vocab_files_names", {}).values())
    has_own_code = not type(tokenizer).__module__.startswith("transformers.")  # its files may have any names
    return not names or has_own_code or _has_any(folder, (*names, *ANY_CLASS))


def _no_tokenizer(folder: Any) -> IsoscopeError:
    return IsoscopeError(
        f"{folder} has no tokenizer that fits its model: copy tokenizer.json and tokenizer_config.json of the model that it was trained "
        f"from into it, or call save_pretrained({str(folder)!r}) on its tokenizer; or name the folder of that model with --tokenizer."
    )


def _load_gguf_tokenizer(path: Path, source: dict[str, Any]) -> Any:
    """Load the tokenizer of a GGUF file, with the special tokens that the file asks for: transformers builds it without them."""
    from transformers import AutoTokenizer

    before, after = special_tokens(path)
    # transformers prefers a tokenizer.json in the same folder to the vocabulary in the GGUF file. This folder has none.
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / path.name).symlink_to(path.resolve())
        tokenizer = AutoTokenizer.from_pretrained(folder, **source)
    _place_tokens(tokenizer, [] if before is None else [before], [] if after is None else [after])
    return tokenizer


def _follow_settings(tokenizer: Any, folder: Path) -> None:
    """Apply `add_bos_token` and `add_eos_token` of tokenizer_config.json: transformers ignores them next to a tokenizer.json."""
    path = folder / "tokenizer_config.json"
    if not getattr(tokenizer, "is_fast", False) or not path.is_file():
        return
    settings = read_settings(path)
    before, after = tokens_around(tokenizer)
    wanted_before = _with_token(before, tokenizer.bos_token_id, settings.get("add_bos_token"), first=True)
    wanted_after = _with_token(after, tokenizer.eos_token_id, settings.get("add_eos_token"), first=False)
    if (wanted_before, wanted_after) == (before, after):
        return
    _place_tokens(tokenizer, wanted_before, wanted_after)
    fed = show_around(token_names(tokenizer, wanted_before), token_names(tokenizer, wanted_after))
    not_fed = show_around(token_names(tokenizer, before), token_names(tokenizer, after))
    warnings.warn(
        f"{path} and tokenizer.json ask for different special tokens; {fed} is fed, as the first says, not {not_fed}.",
        IsoscopeWarning,
        stacklevel=2,
    )


def _with_token(tokens: list[int], token: int | None, wanted: Any, *, first: bool) -> list[int]:
    """The tokens on one side of a text, with or without one at the outer end, as a setting asks; unchanged if it is not set.

    >>> _with_token([], 1, True, first=True), _with_token([1], 1, False, first=True), _with_token([5], 2, True, first=False)
    ([1], [], [5, 2])
    >>> _with_token([5], 1, None, first=True), _with_token([1], 1, True, first=True), _with_token([5], 1, False, first=True)
    ([5], [1], [5])
    """
    if token is None or not isinstance(wanted, bool) or wanted == (token in tokens):
        return tokens
    if not wanted:
        return [other for other in tokens if other != token]
    return [token, *tokens] if first else [*tokens, token]


def _place_tokens(tokenizer: Any, before: list[int], after: list[int]) -> None:
    """Make a tokenizer put these tokens, and no others, around a text."""
    from tokenizers.processors import TemplateProcessing

    # The template refers to tokens by made-up names, because a token's own name may hold characters that a template cannot.
    names = {token: f"t{token}" for token in (*before, *after)}
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=[f"{names[token]}:0" for token in before] + ["$A:0"] + [f"{names[token]}:0" for token in after],
        special_tokens=[{"id": name, "ids": [token], "tokens": [tokenizer.convert_ids_to_tokens(token)]} for token, name in names.items()],
    )


def tokens_around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens that a tokenizer puts before and after a text."""
    for text in PROBES:
        bare, full = tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer(text)["input_ids"]
        for start in range(len(full) - len(bare) + 1) if bare else ():
            if full[start : start + len(bare)] == bare:
                return full[:start], full[start + len(bare) :]
    return tokenizer("")["input_ids"], []  # no probe has a token


def token_names(tokenizer: Any, tokens: Iterable[int]) -> list[str]:
    """Tokens by name; a token that the tokenizer does not know, or whose name cannot be printed, by its number."""
    names = [(token, tokenizer.convert_ids_to_tokens(token)) for token in tokens]
    return [name[:LONGEST_NAME] if isinstance(name, str) and name.isprintable() else f"<{token}>" for token, name in names]


def show_around(before: list[str], after: list[str]) -> str:
    """The special tokens around a text, which is shown as an ellipsis.

    >>> show_around(["[CLS]"], ["[SEP]"]), show_around(["<s>"], []), show_around([], [])
    ('[CLS] … [SEP]', '<s> …', 'none')
    """
    return " ".join([*before, "…", *after]) if before or after else "none"
