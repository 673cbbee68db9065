"""Reading what strangers wrote: nothing longer, deeper or other than it claims to be, and nothing raw to a terminal."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO

LONGEST_JSON = 1 << 26
"""Bytes of a JSON file; as Python objects they may take twenty times as much."""
ESCAPED, HALVES = re.compile(r"\\u[dD][89a-fA-F]"), re.compile("[\ud800-\udfff]")
"""How JSON writes half a character, and halves that found no other half."""


def parse_json(text: str | bytes) -> Any:
    """JSON, where a ValueError also says that it is nested too deeply.

    Half a character, which JSON can name and no file can hold, is read as the sign for what could not be read.

    >>> parse_json(r'["\\ud83d\\ude42", "\\ud83d"]')
    ['🙂', '�']
    """
    try:
        text = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
        found = json.loads(text)
        if ESCAPED.search(text) and HALVES.search(again := json.dumps(found, ensure_ascii=False)):
            found = json.loads(HALVES.sub("\ufffd", again))
        return found
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def strict_json(value: Any, **how: Any) -> str:
    """JSON that every reader takes; a number that it has no word for, NaN or an infinity, is null.

    >>> strict_json([1.5, float("nan"), {"a": float("-inf")}])
    '[1.5, null, {"a": null}]'
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, **how)
    except ValueError:
        return json.dumps(json.loads(json.dumps(value), parse_constant=lambda _: None), ensure_ascii=False, allow_nan=False, **how)


def parsed_object(text: object) -> dict[str, Any]:
    """The fields of an object in JSON, such as the `spec` of a row; none where it is not one.

    >>> parsed_object('{"note": "n < d"}'), parsed_object("[1]"), parsed_object(None)
    ({'note': 'n < d'}, {}, {})
    """
    try:
        found = parse_json(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def read_json(path: Path, most: int = LONGEST_JSON, *, follow: bool = True) -> Any:
    """A JSON file; a ValueError where it is none, is nested too deeply or has more than `most` bytes."""
    return parse_json(read_text(path, most, follow=follow))


def read_text(path: Path, most: int = LONGEST_JSON, *, follow: bool = True) -> str:
    """A file of UTF-8; a ValueError where it is none or has more than `most` bytes. `follow=False` reads as `open_regular` does."""
    with path.open("rb") if follow else open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size or most  # what is no file has no size; the bound itself would be taken at once
        raw = file.read(min(size, most) + 1)
    if len(raw) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return raw.decode("utf-8")


def open_regular(path: Path) -> BinaryIO:
    """Open a file of a run for reading; an OSError where it is a link, a folder, a pipe or a device.

    Without O_NONBLOCK, opening a pipe would wait for somebody to write to it.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):  # EMLINK: what BSD answers to O_NOFOLLOW
            raise _not_regular(path, stat.S_IFLNK) from error
        raise
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise _not_regular(path, mode)


def regular_size(path: Path) -> int:
    """The size of a file of a run or a cache; an OSError where it is a link, a folder, a pipe or a device."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise _not_regular(path, found.st_mode)
    return found.st_size


def _not_regular(path: Path, mode: int) -> OSError:
    what = "a link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no regular file"
    return OSError(None, f"it is {what}, which is not followed", os.fspath(path))
