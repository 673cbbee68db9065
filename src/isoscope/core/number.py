"""Number: a metric's value with its interval and its null."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from isoscope.core.wording import format_estimate, format_number

NAN = float("nan")
POPULATION, THIS_N = "population", "this n"
"""The quantity that a 95 % interval covers: the value of the population of documents, or the metric's mean over samples of this size.

The second is for metrics that are biased at finite n. Compare such numbers only at equal n.
"""

SAME_N = 1.01
"""Two n with at most this ratio count as equal.

In simulated corpora of n = 4d points in 768 dimensions, a change of n by 5 % moved `effective_rank`, whose bias is the largest, by 1.9
half-widths of its interval (0.7 at n = 5d in 128 dimensions). A change by 1 % moves it by less than half of a half-width.
"""


def same_n(a: float, b: float) -> bool:
    """Whether two sample sizes are close enough to compare numbers that depend on n.

    >>> same_n(4096, 4100), same_n(4096, 20_000)
    (True, False)
    """
    return max(a, b) <= SAME_N * min(a, b)


class Number(float):
    """A metric's value: a float with its 95 % interval, its null at the same n and d, and a note on how it was measured.

    It calculates, compares and converts as a float does; `str` and `format` give the plain float, too. Only its `repr` shows more.

    >>> x = Number(0.3, low=0.2, high=0.4, n=100, d=16, null=0.0, null_sd=0.004)
    >>> x
    0.300 [0.200, 0.400], isotropic 0.000
    >>> x + 1, x.low, x.above_null, f"{x}", f"{x:.1%}"
    (1.3, 0.2, True, '0.3', '30.0%')
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
        """Unknown parts are NaN. `interval_about` names the quantity that low to high covers: `POPULATION` or `THIS_N`."""
        self = super().__new__(cls, value)
        self.n, self.d, self.note, self.interval_about = int(n), int(d), note, interval_about
        self.low, self.high, self.null, self.null_sd = float(low), float(high), float(null), float(null_sd)
        return self

    # A dictionary or a list of numbers shows them by repr, and whatever writes a file takes str or format.
    __str__ = float.__repr__

    def __repr__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        return escape(self.describe())

    def describe(self) -> str:
        """The value with its interval, its null and its note, as a reader wants it.

        >>> Number(21.4, n=100, d=64, low=20.9, high=21.9, null=63.2).describe(), Number(NAN, n=1, d=2, note="one point").describe()
        ('21.4 [20.9, 21.9], isotropic 63.2', 'not defined (one point)')
        """
        if math.isnan(self):
            return f"{format_number(self)}{f' ({self.note})' if self.note else ''}"
        text = format_estimate(self, self.low, self.high) if math.isfinite(self) else str(float(self))
        return f"{text}, isotropic {self.format_null()}" if math.isfinite(self.null) else text

    def format_null(self) -> str:
        """The null with as many decimals as the value, so that the two compare at a glance; empty if there is none.

        >>> [Number(0.822, n=9, d=9, null=null).format_null() for null in (0.0, 12.3, NAN)]
        ['0.000', '12.3', '']
        """
        value = format_number(self, missing="")
        decimals = len(value.partition(".")[2])
        if not math.isfinite(self.null) or abs(self.null) >= 1 or not decimals or "e" in value:
            return format_number(self.null, missing="")
        return f"{self.null:.{decimals}f}"

    # A float is pickled by its arguments, which would lose the slots.
    def __getnewargs_ex__(self) -> tuple[tuple[float], dict[str, Any]]:
        return (float(self),), {name: getattr(self, name) for name in self.__slots__}

    def scaled_by(self, factor: float) -> Number:
        """The number in another unit of length: value, interval and null times `factor`."""
        scaled = {name: getattr(self, name) * factor for name in ("low", "high", "null", "null_sd")}
        return Number(float(self) * factor, n=self.n, d=self.d, note=self.note, **scaled)

    @property
    def above_null(self) -> bool:
        """Whether the whole interval (or, without one, the value) lies above the null."""
        return (self if math.isnan(self.low) else self.low) > self.null

    def as_dict(self) -> dict[str, float | int | str | None]:
        """The number for JSON; undefined values are None."""

        def finite(x: float) -> float | None:
            return x if math.isfinite(x) else None

        row: dict[str, float | int | str | None] = {
            "value": finite(float(self)),
            "low": finite(self.low),
            "high": finite(self.high),
            "interval_about": self.interval_about or None,
            "n": self.n,
            "d": self.d,
            "null": finite(self.null),
            "null_sd": finite(self.null_sd),
        }
        return row | ({"note": self.note} if self.note else {})
