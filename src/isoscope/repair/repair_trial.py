"""Try repairs on a matrix: each is fitted to one half of the rows, and the other half is diagnosed before and after."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np

from isoscope import repair
from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.machine import memory_left
from isoscope.core.wording import format_bytes
from isoscope.repair.base import Repair
from isoscope.runs.embedding_diagnosis import Diagnosis, diagnose
from isoscope.sources.arrays import open_array

UNREPAIRED = "as it is"


def parse_repair(text: str) -> Repair:
    """The repair that an expression such as `Centre()`, `centre` or `AllButTheTop(k=2)` names. Nothing is evaluated but plain values.

    >>> parse_repair("centre"), parse_repair("AllButTheTop(k=2)")
    (Centre(), AllButTheTop(k=2))
    """
    classes = {name.lower(): value for name in repair.__all__ if isinstance(value := getattr(repair, name), type) and is_repair(value)}
    example = f"a repair is one of {', '.join(kind.__name__ for kind in classes.values())}, as in 'AllButTheTop(k=2)'"
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        call = tree if isinstance(tree, ast.Call) else ast.Call(tree, [], [])
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        arguments = [ast.literal_eval(value) for value in call.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise IsoscopeError(f"--repair {text!r} cannot be read; {example}.") from error
    if name.lower() not in classes:
        raise IsoscopeError(f"There is no repair called {name or text!r}{nearest(name.lower(), list(classes)) or f'; {example}.'}")
    try:
        made: Repair = classes[name.lower()](*arguments, **named)
    except TypeError as error:
        raise IsoscopeError(f"--repair {text!r}: {error}.") from error
    return made


def is_repair(kind: type) -> bool:
    """Whether a class is a repair that can be made, and not a base class of some."""
    return issubclass(kind, Repair) and not getattr(kind, "__abstractmethods__", None)


def try_repairs(
    path: str | Path, repairs: list[str], *, key: str | None = None, allow_wide: bool = False, **options: Any
) -> dict[str, Diagnosis]:
    """The diagnosis of every second row as it is and after each repair, which was fitted to the other rows.

    Args:
        path: a file with a matrix, which is held in memory.
        repairs: expressions, each on its own.
        key: which array of a file that holds several.
        allow_wide: take a matrix with more columns than rows.
        options: those of `isoscope.diagnose`.
    """
    made = [parse_repair(text) for text in repairs]
    file = open_array(path, key)
    if file.n < 4:
        raise IsoscopeError(f"A repair is fitted to half of the rows and tried on the other half; {path} has {file.n}, and 4 are needed.")
    # Half of a matrix may be wide where the whole is not.
    options["allow_wide"] = allow_wide or file.n >= file.d
    needed, free = 4 * file.n * file.d * file.dtype.itemsize, memory_left()
    if needed > free:
        raise IsoscopeError(f"Trying a repair on {path} takes {format_bytes(needed)} of memory, and {format_bytes(free)} are free.")
    points = np.concatenate(list(file.blocks()))
    fitted, judged = points[::2], points[1::2]
    results = {UNREPAIRED: diagnose(judged, **options)}
    for transformer in made:
        results[repr(transformer)] = diagnose(transformer.fit(fitted).transform(judged), **options)
    return results
