"""A number that knows its interval and its null."""

from __future__ import annotations

import math
from typing import Any

NAN = float("nan")


class Number(float):
    """A metric's value: a float that carries its 95 % interval, its null at matched n and d, and what it was measured on.

    >>> x = Number(0.3, low=0.2, high=0.4, n=100, d=16, null=0.0, null_sd=0.004)
    >>> x + 1, x.low, x.above_null
    (1.3, 0.2, True)
    """

    __slots__ = ("d", "high", "low", "n", "note", "null", "null_sd")

    low: float
    high: float
    n: int
    d: int
    null: float
    null_sd: float
    note: str

    def __new__(
        cls,
        value: float,
        *,
        n: int,
        d: int,
        low: float = NAN,
        high: float = NAN,
        null: float = NAN,
        null_sd: float = NAN,
        note: str = "",
    ) -> Number:
        """A number with all that belongs to it; what is not known is NaN."""
        self = super().__new__(cls, value)
        self.n, self.d, self.note = int(n), int(d), note
        self.low, self.high, self.null, self.null_sd = float(low), float(high), float(null), float(null_sd)
        return self

    def __getnewargs_ex__(self) -> tuple[tuple[float], dict[str, Any]]:
        return (float(self),), {name: getattr(self, name) for name in self.__slots__}

    @property
    def above_null(self) -> bool:
        """Whether the whole interval (or, without one, the value) lies above the null."""
        return (self if math.isnan(self.low) else self.low) > self.null

    def as_dict(self) -> dict[str, float | int | str | None]:
        """The number for JSON: what is not defined is null."""

        def plain(x: float) -> float | None:
            return x if math.isfinite(x) else None

        row: dict[str, float | int | str | None] = {
            "value": plain(float(self)),
            "low": plain(self.low),
            "high": plain(self.high),
            "n": self.n,
            "d": self.d,
            "null": plain(self.null),
            "null_sd": plain(self.null_sd),
        }
        return row | ({"note": self.note} if self.note else {})
