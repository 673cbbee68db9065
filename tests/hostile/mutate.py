"""Small damage to valid files, drawn from a seed: the same seed gives the same damage on every machine."""

import copy
import json
import random
import struct

NUMBERS = (0, 1, 2, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 10**6, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 60) + 1)
NUMBERS += (0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF)
"""Sizes and counts at which programs go wrong."""
WORDS = (b"", b"\0", b"\xff\xff\xff\xff", b"\x1b[31m", b"../../../etc/passwd", b"<script>", b"NaN", b"1e999", b"-1")
WORDS += (b"99999999999999999999", b"[" * 3000, b'{"a":' * 2000, "\u202e".encode(), b"{step}", b"\n\n", b"\r", b"%n", "𝟙٣".encode())
"""Pieces that stand for something else somewhere."""
VALUES = (None, True, -1, 0, 1 << 31, 1 << 63, 10**18, 10**400, 1.5, float("nan"), float("inf"), "", "x" * 5000, "\x1b[31m", "../../..")
VALUES += (
    "[" * 5000,
    '{"a":' * 5000,
    "[1]",
    "<b>",
    [],
    {},
    [0],
    [[]],
    [None],
    {"": None},
    "12",
    "all",
    [1, 2, 3],
    "\ud800",
    "0-9999999999",
    "cuda",
    "/dev/zero",
    "$(id)",
)
"""What may stand in the place of a value of JSON."""
GONE = object()
EVERY = (*VALUES, *NUMBERS, GONE)
"""What may stand in the place of a value, or nothing at all."""

STRIDE = 1_000_003
"""A prime, so that cases one after the other are of other places, and all come in their turn."""


def mutated(raw: bytes, chance: random.Random) -> bytes:
    """One to four changes; most keep the length, because formats say their lengths."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        raw = chance.choice(CHANGES)(bytearray(raw), chance)
    return raw


def _place(raw: bytearray, chance: random.Random) -> int:
    """Where: often near the start, where headers are, or near the end, where Parquet and zip have theirs."""
    size = max(len(raw), 1)
    near = min(size, 256)
    return chance.choice((chance.randrange(size), chance.randrange(near), size - 1 - chance.randrange(near)))


def _flip(raw: bytearray, chance: random.Random) -> bytes:
    for _ in range(chance.choice((1, 1, 3, 10))):
        if raw:
            raw[_place(raw, chance)] ^= 1 << chance.randrange(8)
    return bytes(raw)


def _byte(raw: bytearray, chance: random.Random) -> bytes:
    if raw:
        raw[_place(raw, chance)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(raw)


def _number(raw: bytearray, chance: random.Random) -> bytes:
    kind = chance.choice(("<H", "<I", "<Q", ">I", ">H", "<Q"))
    packed = struct.pack(kind, chance.choice(NUMBERS) & ((1 << 8 * struct.calcsize(kind)) - 1))
    at = _place(raw, chance)
    at -= chance.choice((0, at % 4))
    raw[at : at + len(packed)] = packed
    return bytes(raw)


def _cut(raw: bytearray, chance: random.Random) -> bytes:
    at = _place(raw, chance)
    return bytes(raw[:at]) if chance.random() < 0.7 else bytes(raw[at:])


def _remove(raw: bytearray, chance: random.Random) -> bytes:
    at = _place(raw, chance)
    del raw[at : at + chance.choice((1, 4, 8, 64, 1000))]
    return bytes(raw)


def _insert(raw: bytearray, chance: random.Random) -> bytes:
    at = _place(raw, chance)
    raw[at:at] = chance.choice((chance.choice(WORDS), bytes(raw[at : at + chance.choice((1, 8, 200))]), chance.randbytes(8)))
    return bytes(raw)


def _swap(raw: bytearray, chance: random.Random) -> bytes:
    a, b, size = _place(raw, chance), _place(raw, chance), chance.choice((1, 4, 8, 32))
    raw[a : a + size], raw[b : b + size] = raw[b : b + size], raw[a : a + size]
    return bytes(raw)


def _digits(raw: bytearray, chance: random.Random) -> bytes:
    """Another number where digits stand."""
    places = [i for i, byte in enumerate(raw[:20000]) if 48 <= byte <= 57]
    if not places:
        return _number(raw, chance)
    at = chance.choice(places)
    end = at
    while end < len(raw) and 48 <= raw[end] <= 57:
        end += 1
    raw[at:end] = chance.choice((str(chance.choice(NUMBERS)).encode(), b"9" * chance.choice((3, 18, 40)), b"-1", b"0", b"1e400"))
    return bytes(raw)


CHANGES = (_flip, _byte, _number, _number, _cut, _remove, _insert, _swap, _digits)


def _value(chance: random.Random) -> object:
    return copy.deepcopy(chance.choice(VALUES))  # one that is changed later must not be one of those to choose from


def mutated_json(value: object, chance: random.Random) -> object:
    """The same with one to three values replaced, taken out or added."""
    value = json.loads(json.dumps(value))
    for _ in range(chance.choice((1, 1, 2, 3))):
        holders = list(_holders(value))
        if not holders:
            return _value(chance)
        holder = chance.choice(holders)
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = chance.choice(keys) if keys else None
        what = chance.random()
        if key is None or what < 0.1:
            if isinstance(holder, dict):
                holder[chance.choice(("", "new", "auto_map", "shard", "experiment", "\x1b[2J"))] = _value(chance)
            else:
                holder.append(_value(chance))
        elif what < 0.2:
            del holder[key]
        elif isinstance(holder[key], int) and what < 0.6:
            holder[key] = chance.choice((*NUMBERS, -1, -5, holder[key] + 1, holder[key] * 1000))
        else:
            holder[key] = _value(chance)
    return value


def leaves(value: object, path: tuple = ()):
    """The places of all values within one, but for those of long lists that say the same again and again."""
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        if key not in LONG:
            yield from leaves(one, (*path, key))


LONG = ("vocab", "merges", "mel_filters", "added_tokens_decoder", "id2label", "label2id")


def replaced(value: object, path: tuple, new: object) -> object:
    """The same with another value at a place, or without one."""
    value = copy.deepcopy(value)
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    if new is GONE:
        del holder[path[-1]]
    else:
        holder[path[-1]] = copy.deepcopy(new)
    return value


def _holders(value: object):
    if isinstance(value, dict | list):
        yield value
        for one in value.values() if isinstance(value, dict) else value:
            yield from _holders(one)
