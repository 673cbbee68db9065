"""What `--steps` and `--seeds` ask for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from isoscope.core.errors import IsoscopeError

WORD = re.compile(r"(\d+)(?:-(\d+)(?::(x?)(\d+))?)?")
MANY = 10_000
"""More numbers than a suite has checkpoints."""


@dataclass(frozen=True)
class Asked:
    """Numbers that must be there, and ranges of which whatever is there is meant."""

    option: str
    numbers: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, text: str, option: str) -> Asked:
        """`0,20,40-200:20` numbers and every twentieth, `1-512:x2` doubling, `0-4` all that is there between.

        >>> Asked.parse("0,40-100:20,1-8:x2,500-900", "--steps")
        Asked(option='--steps', numbers=(0, 1, 2, 4, 8, 40, 60, 80, 100), ranges=((500, 900),))
        """
        numbers: set[int] = set()
        ranges: list[tuple[int, int]] = []
        for word in filter(None, (word.strip() for word in text.split(","))):
            found = WORD.fullmatch(word)
            if not found:
                raise IsoscopeError(f"{option} takes numbers and ranges, as in 0,20,40-200:20 or 1-512:x2; got {word!r}.")
            low, high, by = int(found[1]), int(found[2] or found[1]), int(found[4] or 0)
            if low > high:
                raise IsoscopeError(f"{option} takes ranges from low to high, as in 0-4; got {word!r}.")
            if found[4] and (by < 1 or (found[3] and (by < 2 or low < 1))):
                raise IsoscopeError(
                    f"{option} takes ranges by 1 or more (40-200:20), or times 2 or more from 1 on (1-512:x2); got {word!r}."
                )
            if found[2] and not found[4]:
                ranges.append((low, high))
            elif found[3]:
                numbers.update(_times(low, high, by))
            else:
                numbers.update(_few(range(low, high + 1, by or 1), option))
        if not numbers and not ranges:
            raise IsoscopeError(f"{option} names none; give numbers and ranges, as in 0,20,40-200:20.")
        return cls(option, tuple(sorted(numbers)), tuple(ranges))

    def __contains__(self, number: object) -> bool:
        return number in self.numbers or any(isinstance(number, int) and low <= number <= high for low, high in self.ranges)

    def every(self) -> list[int]:
        """Each number, also of the ranges: for where nothing says what is there."""
        return sorted({*self.numbers, *(i for low, high in self.ranges for i in _few(range(low, high + 1), self.option))})


def _few(numbers: range, option: str) -> range:
    count = -(-(numbers.stop - numbers.start) // numbers.step)  # len() takes no count beyond 2⁶³
    if count > MANY:
        raise IsoscopeError(f"{option} {numbers[0]}-{numbers[-1]} is {count:,} numbers; say how far apart, as in 0-143000:1000.")
    return numbers


def _times(low: int, high: int, factor: int) -> list[int]:
    found = [low]
    while found[-1] * factor <= high:
        found.append(found[-1] * factor)
    return found
