"""Strange values in the place of one array of saved statistics: each array and each change in its turn."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

Arrays = dict[str, np.ndarray]
Change = Callable[[Arrays, str], None]

NUMBERS = (np.nan, np.inf, -np.inf, -1, 0, 1, 2, 0.5, 1e30, 1e160, 1e300, 5e-324, 1 << 31, 1 << 53, (1 << 63) - 1, -(1 << 63))
"""Sums and counts at which programs go wrong."""
TYPES = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u1", "?")


def _cast(array: np.ndarray, number: float) -> np.ndarray:
    """A number as this array would hold it; the nearest where it holds none such."""
    if array.dtype.kind in "iu":
        info = np.iinfo(array.dtype)
        number = 0 if number != number else min(max(number, info.min), info.max)
        return np.array(int(number), array.dtype)
    with np.errstate(over="ignore"):
        return np.array(number).astype(array.dtype)


def _one(number: float, where: int) -> Change:
    def change(arrays: Arrays, name: str) -> None:
        array = arrays[name].copy()
        if array.size:
            array.flat[where % array.size] = _cast(array, number)
        arrays[name] = array

    return change


def _all(number: float) -> Change:
    def change(arrays: Arrays, name: str) -> None:
        arrays[name] = np.full_like(arrays[name], _cast(arrays[name], number))

    return change


def _shaped(shape: Callable[[np.ndarray], np.ndarray]) -> Change:
    def change(arrays: Arrays, name: str) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            arrays[name] = np.ascontiguousarray(shape(arrays[name]))

    return change


def _along(axis: int, take: Callable[[int], slice | list[int]]) -> Change:
    """Fewer or more along an axis; one axis more where there is none such."""

    def shape(array: np.ndarray) -> np.ndarray:
        return array.take(np.arange(array.shape[axis])[take(array.shape[axis])], axis) if array.ndim > axis else array[None]

    return _shaped(shape)


def _renamed(new: Callable[[str], str]) -> Change:
    def change(arrays: Arrays, name: str) -> None:
        arrays[new(name)] = arrays.pop(name)

    return change


def _site_renamed(new: Callable[[str], str]) -> Change:
    def change(arrays: Arrays, name: str) -> None:
        label = name.partition("/")[0]
        for one in [one for one in arrays if one.startswith(f"{label}/")]:
            arrays[f"{new(label)}/{one.partition('/')[2]}"] = arrays.pop(one)

    return change


def _site_cut(axis: int, size: int) -> Change:
    """All arrays of a site with fewer along an axis."""

    def change(arrays: Arrays, name: str) -> None:
        label = name.partition("/")[0]
        for one in [one for one in arrays if one.startswith(f"{label}/")]:
            if arrays[one].ndim > axis:
                arrays[one] = np.ascontiguousarray(arrays[one].take(range(min(size, arrays[one].shape[axis])), axis))

    return change


def _gone(arrays: Arrays, name: str) -> None:
    del arrays[name]


def _site_gone(arrays: Arrays, name: str) -> None:
    label = name.partition("/")[0]
    for one in [one for one in arrays if one.startswith(f"{label}/")]:
        del arrays[one]


SWAPPED = (("hidden", "query"), ("query", "hidden"), ("attention", "key"))
CHANGES: list[Change] = [
    *(_one(number, where) for number in NUMBERS for where in (0, 1, -1)),
    *(_all(number) for number in NUMBERS),
    *(_shaped(lambda array, kind=kind: array.astype(kind)) for kind in TYPES),
    *(_along(axis, take) for axis in (0, 1, 2) for take in (lambda n: slice(1), lambda n: slice(n - 1), lambda n: slice(0))),
    *(_along(axis, lambda n: [*range(n), *range(n)]) for axis in (0, 1)),
    _shaped(lambda array: array.ravel()),
    _shaped(lambda array: array[None]),
    _shaped(lambda array: array.T),
    _shaped(lambda array: array[::-1]),
    _shaped(lambda array: -array if array.dtype.kind == "f" else array[..., ::-1]),
    _shaped(lambda array: array * 2 if array.dtype.kind == "f" else array + np.array(1, array.dtype)),
    _shaped(lambda array: array.ravel()[0] if array.size else array),
    _renamed(lambda name: name + "x"),
    _renamed(lambda name: name.replace("body", "other")),
    _renamed(lambda name: name.partition("/")[2]),
    *(
        _site_renamed(lambda label, new=new: label.replace(*new))
        for new in (("hidden", "query"), ("query", "hidden"), ("attention", "key"))
    ),
    *(_site_renamed(lambda label, new=new: label + new) for new in (".0", ".-1", "9" * 9, "x", "\x1b[31m")),
    _site_renamed(lambda label: label.rpartition(".")[0] + ".7"),
    _site_renamed(lambda label: label.rpartition(".")[0]),
    *(_site_cut(axis, size) for axis in (0, 1) for size in (0, 1)),
    _gone,
    _site_gone,
]


def spoil_array(path: Path, arrays: Arrays, place: int, which: int) -> str:
    """Write statistics with one array changed, and say which."""
    from isoscope.runs.tensors import write_tensors

    arrays, name = dict(arrays), sorted(arrays)[place]
    CHANGES[which](arrays, name)
    write_tensors(arrays.items, path)
    return name
