"""What a user gives: names and paths, counts with their limits, and selections of numbers such as `--steps 0-4`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from isoscope.core.errors import IsoscopeError, nearest

Name = str | os.PathLike[str]

MAX_COUNT = 10**15
"""More than anybody has of anything counted here. Libraries count in 64 bits and fail in their own words beyond that."""
MAX_THREADS = 4096
"""More threads than are of use. A library may allocate memory per thread, and end the process if there is none."""
MAX_BLOCKS = 4096
"""Blocks of a network, which are built one by one."""
MAX_SAMPLE = 10**12
"""Points of a sample. Even the widest points then take fewer bytes than numpy can count, so that too many raise a MemoryError."""
MAX_SEED = (1 << 63) - 1
MAX_NUMBERS = 10_000
"""More numbers than a suite has checkpoints."""
WORD = re.compile(r"(\d+)(?:-(\d+)(?::(x?)(\d+))?)?")
"""A number or a range in a selection: `5`, `0-4`, `40-200:20`, `1-512:x2`."""


def list_names(names: Name | Iterable[Name]) -> list[str]:
    """One name or several, as a list of strings.

    >>> from pathlib import Path
    >>> list_names("a"), list_names(Path("models/b")), list_names(["a", Path("b")])
    (['a'], ['models/b'], ['a', 'b'])
    """
    return [os.fspath(name) for name in ([names] if isinstance(names, (str, os.PathLike)) else names)]


def expand_home(name: str) -> Path:
    """A path in which `~` is replaced by the home folder; the `~name` of an unknown user stays as it is.

    >>> expand_home("~nobody-of-this-name/x").as_posix()
    '~nobody-of-this-name/x'
    """
    return Path(os.path.expanduser(name))  # Path.expanduser raises for an unknown user


def check_count(option: str, value: int | None, least: int = 1, most: int = MAX_COUNT) -> None:
    """Refuse a number that is too small or too large before any work is done; None, the default of an option, passes.

    >>> check_count("max_items", 0)
    Traceback (most recent call last):
    isoscope.core.errors.IsoscopeError: --max-items must be at least 1; got 0.
    """
    flag = f"--{option.replace('_', '-')}"
    if value is not None and value < least:
        raise IsoscopeError(f"{flag} must be at least {least}; got {value}.")
    if value is not None and value > most:
        raise IsoscopeError(f"{flag} must be at most {most:,}; got {value:,}.")


def check_word(expected: str, word: str, known: Iterable[str], joined: str = ", ") -> None:
    """Refuse a word that is not known, and suggest the nearest one.

    >>> check_word("--dtype must be one of", "float23", ("float16", "float32"))
    Traceback (most recent call last):
    isoscope.core.errors.IsoscopeError: --dtype must be one of float16, float32; got 'float23', did you mean float32?
    """
    words = list(known)
    if word not in words:
        raise IsoscopeError(f"{expected} {joined.join(words)}; got {word!r}{nearest(str(word), words) or '.'}")


@dataclass(frozen=True)
class NumberSelection:
    """Numbers that must exist, and ranges that select every number in them that does."""

    option: str
    numbers: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, text: str, option: str) -> NumberSelection:
        """Parse `0,20,40-200:20` (numbers, and every twentieth), `1-512:x2` (doubling) and `0-4` (every one that exists in between).

        >>> NumberSelection.parse("0,40-100:20,1-8:x2,500-900", "--steps")
        NumberSelection(option='--steps', numbers=(0, 1, 2, 4, 8, 40, 60, 80, 100), ranges=((500, 900),))
        """
        numbers: set[int] = set()
        ranges: list[tuple[int, int]] = []
        for word in filter(None, (word.strip() for word in text.split(","))):
            match = WORD.fullmatch(word)
            if not match:
                raise IsoscopeError(f"{option} takes numbers and ranges, as in 0,20,40-200:20 or 1-512:x2; got {word!r}.")
            low, high, by = int(match[1]), int(match[2] or match[1]), int(match[4] or 0)
            if low > high:
                raise IsoscopeError(f"{option} takes ranges from low to high, as in 0-4; got {word!r}.")
            if match[4] and (by < 1 or (match[3] and (by < 2 or low < 1))):
                raise IsoscopeError(
                    f"{option} takes ranges by 1 or more (40-200:20), or times 2 or more from 1 on (1-512:x2); got {word!r}."
                )
            if match[2] and not match[4]:
                ranges.append((low, high))
            elif match[3]:
                while low <= high:
                    numbers.add(low)
                    low *= by
            else:
                numbers.update(_require_few(range(low, high + 1, by or 1), option))
        if not numbers and not ranges:
            raise IsoscopeError(f"{option} names none; give numbers and ranges, as in 0,20,40-200:20.")
        return cls(option, tuple(sorted(numbers)), tuple(ranges))

    def __contains__(self, number: object) -> bool:
        return number in self.numbers or any(isinstance(number, int) and low <= number <= high for low, high in self.ranges)

    def all_numbers(self) -> list[int]:
        """Every number, those of the ranges included: for when nothing says which ones exist."""
        return sorted({*self.numbers, *(i for low, high in self.ranges for i in _require_few(range(low, high + 1), self.option))})


def _require_few(numbers: range, option: str) -> range:
    count = -(-(numbers.stop - numbers.start) // numbers.step)  # len() fails beyond 2⁶³
    if count > MAX_NUMBERS:
        raise IsoscopeError(f"{option} {numbers[0]}-{numbers[-1]} is {count:,} numbers; say how far apart, as in 0-143000:1000.")
    return numbers
