"""The numbers that `--steps` and `--seeds` select."""

from __future__ import annotations

import re
from dataclasses import dataclass

from isoscope.core.errors import IsoscopeError

WORD = re.compile(r"(\d+)(?:-(\d+)(?::(x?)(\d+))?)?")
MAX_NUMBERS = 10_000
"""More numbers than a suite has checkpoints."""


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
                numbers.update(_geometric_range(low, high, by))
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


def _geometric_range(low: int, high: int, factor: int) -> list[int]:
    numbers = [low]
    while numbers[-1] * factor <= high:
        numbers.append(numbers[-1] * factor)
    return numbers
