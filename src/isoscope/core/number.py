"""A number that knows its interval and its null."""

from __future__ import annotations

import math
from typing import Any

NAN = float("nan")
POPULATION, THIS_N = "population", "this n"
"""What a 95 % interval is about: the value of the whole population of documents, or the metric's mean over other samples of this size.

The second is said of a metric that has a bias at finite n: compare such numbers only at equal n.
"""

SAME_N = 1.01
"""Up to this ratio two n count as equal.

In simulated corpora of n = 4d points in 768 dimensions a change of n by 5 % moved `effective_rank`, whose bias is the largest, by 1.9 times
half the width of its interval (0.7 times at n = 5d in 128 dimensions): a change by 1 % moves it by less than half of that width.
"""


def same_n(a: float, b: float) -> bool:
    """Whether two numbers of points are near enough for numbers that depend on n to be compared.

    >>> same_n(4096, 4100), same_n(4096, 20_000)
    (True, False)
    """
    return max(a, b) <= SAME_N * min(a, b)


class Number(float):
    """A metric's value: a float that carries its 95 % interval, its null at matched n and d, and what it was measured on.

    >>> x = Number(0.3, low=0.2, high=0.4, n=100, d=16, null=0.0, null_sd=0.004)
    >>> x + 1, x.low, x.above_null
    (1.3, 0.2, True)
    """

    __slots__ = ("d", "high", "interval_about", "low", "n", "note", "null", "null_sd")

    low: float
    high: float
    interval_about: str
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
        interval_about: str = "",
    ) -> Number:
        """A number with all that belongs to it; what is not known is NaN. `interval_about`: what low to high is about."""
        self = super().__new__(cls, value)
        self.n, self.d, self.note, self.interval_about = int(n), int(d), note, interval_about
        self.low, self.high, self.null, self.null_sd = float(low), float(high), float(null), float(null_sd)
        return self

    def __getnewargs_ex__(self) -> tuple[tuple[float], dict[str, Any]]:
        return (float(self),), {name: getattr(self, name) for name in self.__slots__}

    def times(self, factor: float) -> Number:
        """The number in another unit of length: value, interval and null multiplied."""
        scaled = {name: getattr(self, name) * factor for name in ("low", "high", "null", "null_sd")}
        return Number(float(self) * factor, n=self.n, d=self.d, note=self.note, **scaled)

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
            "interval_about": self.interval_about or None,
            "n": self.n,
            "d": self.d,
            "null": plain(self.null),
            "null_sd": plain(self.null_sd),
        }
        return row | ({"note": self.note} if self.note else {})
