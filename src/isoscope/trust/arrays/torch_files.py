"""Tensors that torch.save wrote (.pt, .pth), read without torch and without running the pickle.

The pickle in such an archive is a small program. It is interpreted here by a reader that knows the few instructions and the few names that
plain tensors need, and builds nothing but numbers, texts, lists, dictionaries and descriptions of tensors. The values lie uncompressed
in the archive and are read in blocks.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.trust.arrays.array_file import UncompressedArray, choose_array
from isoscope.trust.arrays.numpy_files import offset_of_member, zip_errors_as_user_errors
from isoscope.trust.pickles import check_archive, is_archive

MAX_PICKLE = 32 << 20
"""Bytes of the pickle, which only describes tensors."""
MAX_VALUES = 1 << 20
"""Values in all dictionaries and lists together."""
MAX_DEPTH = 64
"""How deeply dictionaries and lists are nested, and dots in their keys."""
STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": "<u2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
"""The types of stored values. bfloat16 is read as 16-bit integers, the upper halves of float32."""
REBUILD, PARAMETER, ORDERED = "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter", "collections OrderedDict"
KNOWN = {REBUILD, PARAMETER, ORDERED, *(f"torch {name}" for name in STORAGES)}
"""The names that a pickle of plain tensors refers to; any other ends the reading."""


class ForeignPickleError(Exception):
    """The pickle holds something else than plain tensors; the message names it."""


@dataclass(frozen=True)
class Name:
    """A name that the pickle refers to. Nothing of that name is imported."""

    text: str


@dataclass(frozen=True)
class Storage:
    """Values in the archive, by the name of their member."""

    kind: str
    member: str


@dataclass(frozen=True)
class TensorPlace:
    """Where a tensor lies in a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


MARK = object()
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": (), "MARK": MARK}
LITERALS = {"BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "SHORT_BINUNICODE", "BINFLOAT"}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def read_pickle(raw: bytes) -> Any:
    """The value of a pickle of plain tensors: `TensorPlace`s, or dictionaries and lists of them."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def pop_to_mark() -> list[Any]:
        at = next(i for i in range(len(stack) - 1, -1, -1) if stack[i] is MARK)
        values = stack[at + 1 :]
        del stack[at:]
        return values

    for opcode, argument, _ in pickletools.genops(raw):
        name = opcode.name
        if name in ("PROTO", "FRAME"):
            continue
        if name == "STOP":
            return stack.pop()
        if name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in LITERALS:
            stack.append(argument)
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if argument is None else int(argument)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[int(str(argument))])
        elif name == "GLOBAL":
            stack.append(_known_name(str(argument)))
        elif name == "STACK_GLOBAL":
            last, first = stack.pop(), stack.pop()
            stack.append(_known_name(f"{first} {last}"))
        elif name in TUPLES:
            count = TUPLES[name]
            stack[-count:] = [tuple(stack[-count:])]
        elif name == "TUPLE":
            stack.append(tuple(pop_to_mark()))
        elif name in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if name == "EMPTY_DICT" else [])
        elif name in ("SETITEM", "SETITEMS"):
            values = pop_to_mark() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            if any(not isinstance(key, str | int) for key in values[::2]):
                raise ForeignPickleError("a key that is neither text nor a number")
            stack[-1].update(zip(values[::2], values[1::2], strict=True))
        elif name in ("APPEND", "APPENDS"):
            values = pop_to_mark() if name == "APPENDS" else [stack.pop()]
            stack[-1].extend(values)
        elif name == "BINPERSID":
            stack.append(_storage(stack.pop()))
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(_call(function, arguments))
        elif name == "BUILD":  # the attributes of an OrderedDict, which hold no tensor
            stack.pop()
        else:
            raise ForeignPickleError(f"the instruction {name}")
    raise ForeignPickleError("no end")


def _known_name(text: str) -> Name:
    if text not in KNOWN:
        raise ForeignPickleError(text.replace(" ", "."))
    return Name(text)


def _storage(identity: Any) -> Storage:
    """The storage of a persistent id: ("storage", type, member, device, number of values)."""
    _, kind, member, *_ = identity
    return Storage(kind.text.removeprefix("torch "), str(member))


def _call(function: Any, arguments: tuple[Any, ...]) -> Any:
    """What a call of one of the known functions gives: a description, and never the call itself."""
    if function == Name(ORDERED):
        return {}
    if function == Name(PARAMETER):
        return arguments[0]
    if function != Name(REBUILD):
        raise ForeignPickleError("a call of something that is no function")
    storage, offset, shape, stride, *_ = arguments
    if not isinstance(storage, Storage) or len(shape) != len(stride) or any(type(x) is not int or x < 0 for x in (offset, *shape, *stride)):
        raise ForeignPickleError("a tensor without a sound shape")
    return TensorPlace(storage, offset, shape, stride)


def list_tensors(value: Any) -> Iterator[tuple[str, TensorPlace]]:
    """The tensors in nested dictionaries and lists, each with its path joined by dots."""
    waiting, seen = [("", value)], 0
    while waiting:
        prefix, value = waiting.pop()
        seen += 1
        inside = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list | tuple) else ())
        count = len(value) if isinstance(value, dict | list | tuple) else 0
        # A few bytes can put a list into itself, or twice into the next, again and again. Values count before they take memory here.
        if seen + len(waiting) + count > MAX_VALUES or prefix.count(".") > MAX_DEPTH:
            raise ForeignPickleError(f"more than {MAX_VALUES:,} values, or deeper than {MAX_DEPTH}")
        if isinstance(value, TensorPlace):
            yield prefix or "tensor", value
        else:
            waiting += reversed([(f"{prefix}.{key}" if prefix else str(key), inner) for key, inner in inside])


def open_torch(path: Path, key: str | None = None) -> UncompressedArray:
    """The tensor that `key` names, or the only matrix, in a file of torch.save."""
    if not is_archive(path):
        raise IsoscopeError(f"{path} is no archive of torch.save (torch 1.6 or later); save the tensor again, or as .safetensors.")
    check_archive(path)
    with zip_errors_as_user_errors(path, "torch.save"), zipfile.ZipFile(path) as archive:
        members = {info.filename: info for info in archive.infolist()}
        top = next((name.partition("/")[0] for name in members if name.endswith("/data.pkl")), None)
        if top is None:
            raise IsoscopeError(f"{path} is an archive without tensors; save the tensor with torch.save.")
        if members[f"{top}/data.pkl"].file_size > MAX_PICKLE:
            raise IsoscopeError(f"{path} describes too many values to be a matrix; save the tensor alone.")
        raw = archive.read(f"{top}/data.pkl")
        if members.get(f"{top}/byteorder") and archive.read(f"{top}/byteorder") != b"little":
            raise IsoscopeError(f"{path} was written by a big-endian machine; save it as .safetensors.")
    try:
        tensors = dict(list_tensors(read_pickle(raw)))
    except ForeignPickleError as error:
        raise IsoscopeError(f"{path} holds more than plain tensors ({error}), and was not loaded; save the tensor alone.") from error
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration, RuntimeError) as error:
        raise IsoscopeError(f"{path} is damaged: its list of tensors cannot be read; save it again.") from error
    name, label = choose_array(path, key, {name: place.shape for name, place in tensors.items()})
    return _place_tensor(path, label, tensors[name], members.get(f"{top}/data/{tensors[name].storage.member}"))


def _place_tensor(path: Path, label: str, place: TensorPlace, info: zipfile.ZipInfo | None) -> UncompressedArray:
    """The values of a tensor, which must lie one after the other by rows or by columns."""
    if info is None:
        raise IsoscopeError(f"{path} lacks the values of {label}; copy or save it again.")
    dtype, shape = np.dtype(STORAGES[place.storage.kind]), place.shape
    by_rows, by_columns = [(*shape[1:2], 1), (1, *shape[:1])] if len(shape) == 2 else [place.stride] * 2
    if place.stride not in (by_rows, by_columns):
        raise IsoscopeError(f"{path}: {label} is a view of another tensor; save tensor.contiguous().")
    values = place.offset + int(np.prod(shape, dtype=object))
    if values * dtype.itemsize > info.file_size:
        raise IsoscopeError(f"{path} promises more values of {label} than it holds; copy or save it again.")
    offset = offset_of_member(path, info, "torch.save") + place.offset * dtype.itemsize
    fortran, bfloat16 = place.stride != by_rows, place.storage.kind == "BFloat16Storage"
    return UncompressedArray(path, label, shape, dtype, offset, fortran=fortran, bfloat16=bfloat16)
