"""Reading files that strangers wrote: nothing is longer or deeper than its limit, and nothing but a regular file is opened."""

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
"""The escape of half a character in JSON, and halves that have no other half."""


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; a ValueError also reports that it is nested too deeply.

    Half a character (a lone surrogate), which JSON can name and no file can hold, becomes the replacement character.

    >>> parse_json(r'["\\ud83d\\ude42", "\\ud83d"]')
    ['🙂', '�']
    """
    try:
        text = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
        value = json.loads(text)
        # Two escapes may make one character, so that only the parsed value shows which halves are alone.
        if ESCAPED.search(text) and HALVES.search(again := json.dumps(value, ensure_ascii=False)):
            value = json.loads(HALVES.sub("\ufffd", again))
        return value
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def to_strict_json(value: Any, **how: Any) -> str:
    """JSON that every reader accepts: NaN and infinities, which it cannot express, are null.

    >>> to_strict_json([1.5, float("nan"), {"a": float("-inf")}])
    '[1.5, null, {"a": null}]'
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, **how)
    except ValueError:
        return json.dumps(json.loads(json.dumps(value), parse_constant=lambda _: None), ensure_ascii=False, allow_nan=False, **how)


def parse_object(text: object) -> dict[str, Any]:
    """The fields of an object in JSON, such as the `spec` of a row; empty if it is not an object.

    >>> parse_object('{"note": "n < d"}'), parse_object("[1]"), parse_object(None)
    ({'note': 'n < d'}, {}, {})
    """
    try:
        value = parse_json(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def read_json(path: Path, most: int = LONGEST_JSON, *, follow: bool = True) -> Any:
    """Read a JSON file; raises a ValueError if it is not JSON, is nested too deeply or has more than `most` bytes."""
    return parse_json(read_text(path, most, follow=follow))


def read_text(path: Path, most: int = LONGEST_JSON, *, follow: bool = True) -> str:
    """Read a file of UTF-8; raises a ValueError if it is not, or has more than `most` bytes. `follow=False` opens with `open_regular`."""
    with path.open("rb") if follow else open_regular(path) as file:
        # Only a pipe or a device, which have no size, are read up to the limit: that allocates all of it at once.
        raw = file.read(min(os.fstat(file.fileno()).st_size or most, most) + 1)
    if len(raw) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return raw.decode("utf-8")


def open_regular(path: Path) -> BinaryIO:
    """Open a file of a run for reading; raises an OSError if it is a link, a folder, a pipe or a device.

    Without O_NONBLOCK, opening a pipe would wait for somebody to write to it.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):  # BSD reports a link as EMLINK
            raise _not_regular(path, stat.S_IFLNK) from error
        raise
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise _not_regular(path, mode)


def regular_size(path: Path) -> int:
    """The size of a file of a run or a cache; raises an OSError if it is a link, a folder, a pipe or a device."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise _not_regular(path, status.st_mode)
    return status.st_size


def _not_regular(path: Path, mode: int) -> OSError:
    what = "a link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no regular file"
    return OSError(None, f"it is {what}, which is not followed", os.fspath(path))
