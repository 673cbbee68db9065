"""The rows of attention at one site: sums by head, slice and group of items."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from isoscope.core.numerics import Floats
from isoscope.statistics.jackknife_groups import GROUPS
from isoscope.statistics.kernel import one_thread

ROW_SUMS = (
    "rows",
    "entropy",
    "many",  # rows that see more than one position
    "normalised",  # of those, entropy over the logarithm of their number
    "log_open",
    "share",  # Σ 1/open, what every position of a uniform row gets
    "maximum",
    "minimum",
    "median",
    "mean",  # of a row's scores
    "variance",
    "open",  # scores counted
    "score",
    "score2",
    "first",
    "first_share",  # Σ 1/open over the rows that may see position 0: what it gets from a uniform row
)
"""The sums over the rows of each head, slice and group."""
SEQUENCE_SUMS = ("sequences", "rows", "share", "top", "sinks", "highest", "lowest")
"""The sums over the sequences of each head and group: their number, their rows, Σ 1/open; the attention that the most attended position
receives; whether that is more than `SINK` of all; the largest and the smallest probability in any row."""
SINK = 0.3
"""A sequence has a sink if one position receives more than this part of all its attention."""

OCTAVES = (-14, 14)
STEPS = 16
_SCALE = 2.0 ** np.repeat(np.arange(*OCTAVES), STEPS) * np.tile(1 + np.arange(STEPS) / STEPS, OCTAVES[1] - OCTAVES[0])
_ABOVE = np.append(_SCALE, 2.0 ** OCTAVES[1])
EDGES = np.concatenate([-_ABOVE[::-1], _ABOVE])
"""The edges of the bins of scores. Each sign has 16 bins per doubling from 2⁻¹⁴ to 2¹⁴, and one bin for smaller scores; larger scores are
counted in the last bins."""

BINS = len(_ABOVE) - 1
"""The bins of one sign."""
LOWEST_CODE = (127 + OCTAVES[0]) * STEPS - 1
"""The exponent and the first four binary digits of the largest float32 number that is in the bin for small scores."""


def score_counts(scores: np.ndarray) -> np.ndarray:
    """Return how many scores lie between each two of `EDGES`.

    >>> counts = score_counts(np.array([0.0, 1.0, 1.01, -3e9], dtype=np.float32))
    >>> int(counts.sum()), int(counts[0]), int(counts[np.searchsorted(EDGES, 1.0)])
    (4, 1, 2)
    """
    bits = np.ascontiguousarray(scores, dtype=np.float32).ravel().view(np.uint32)
    # The exponent and the first four binary digits of a float32 number its bin: no logarithm and no search are needed.
    code = ((bits & np.uint32(0x7FFFFFFF)) >> np.uint32(19)).astype(np.int32)
    np.clip(code - LOWEST_CODE, 0, BINS, out=code)
    np.negative(code, out=code, where=(bits >> np.uint32(31)).astype(bool))
    return np.bincount(code + BINS, minlength=2 * BINS + 1)


class AttentionStatistics:
    """The rows of attention at one site, by head, slice of the query, and group of items."""

    def __init__(self, h: int, e: int, names: list[str], *, scale: float = 1.0, median: bool = False, histogram: bool = False) -> None:
        self.h, self.e, self.names, self.scale, self.median = h, e, list(names), scale, median
        self.sums = np.zeros((h, len(names), GROUPS, len(ROW_SUMS)))
        self.sequences = np.zeros((h, GROUPS, len(SEQUENCE_SUMS)))
        self.histogram: np.ndarray | None = np.zeros((h, len(EDGES) - 1), dtype=np.int64) if histogram else None

    def update(self, rows: Mapping[str, np.ndarray], codes: np.ndarray, group: np.ndarray) -> int:
        """Add the rows of a batch.

        Args:
            rows: the numbers of each row, arrays (b, h, r) by name; `received` is (b, h, s).
            codes: (b, r) the slice of each row as its number in `names`; −1 where a row is padding.
            group: (b,) the group of each sequence.

        Returns:
            How many rows hold NaN or infinity. If there are any, nothing was added.
        """
        counted = (codes >= 0)[:, None] & (rows["open"] > 0)
        with np.errstate(invalid="ignore"):
            bad = counted & ~np.isfinite(rows["entropy"] + rows["mean"] + rows["sd"])
        if bad.any():
            return int(bad.sum())
        values = self._values(rows, counted)
        with one_thread():
            # One small product per sequence sums its rows by slice. A product over the batch would need a (rows × groups × slices) mask.
            for i, g in enumerate(group):
                member = (codes[i][:, None] == np.arange(len(self.names))).astype(np.float64)
                self.sums[:, :, g] += (values[:, i] @ member).transpose(1, 2, 0)
                self.sequences[:, g] += _sequence_sums(values[:, i], rows["received"][i])
        return 0

    def count(self, scores: np.ndarray) -> None:
        """Add scores, counted between `EDGES`: (h, bins)."""
        assert self.histogram is not None
        self.histogram += scores

    def _values(self, rows: Mapping[str, np.ndarray], counted: np.ndarray) -> Floats:
        """Return (sums, b, h, r) what each row adds: 0 for rows that do not count."""
        # A row that sees no position counts as one of a single position here, to avoid 0/0; `counted` removes it below.
        n = np.maximum(rows["open"], 1).astype(np.float64)
        log, mean, variance = np.log(n), rows["mean"], rows["sd"] ** 2
        columns = {
            "rows": 1.0,
            "entropy": rows["entropy"],
            "many": n > 1,
            "normalised": rows["entropy"] / np.where(n > 1, log, np.inf),
            "log_open": log,
            "share": 1 / n,
            "maximum": rows["maximum"],
            "minimum": rows["minimum"],
            "median": rows["median"] if self.median else 0.0,
            "mean": mean,
            "variance": variance,
            "open": n,
            "score": n * mean,
            "score2": n * (variance + mean**2),  # about 0, not about the row's mean: only then do rows of different means add up
            "first": rows["first"],
            "first_share": rows["sees_first"] / n,
        }
        values = np.empty((len(ROW_SUMS), *counted.shape))
        for place, name in zip(values, ROW_SUMS, strict=True):
            place[:] = columns[name]
        if not counted.all():
            values[:, ~counted] = 0.0
        return values

    @property
    def slices_in_use(self) -> list[str]:
        """The slices that hold rows."""
        in_use = self.sums[..., 0].sum((0, 2)) > 0
        return [name for name, used in zip(self.names, in_use, strict=True) if used]

    def merge(self, other: AttentionStatistics) -> AttentionStatistics:
        """The statistics of both streams; neither is changed."""
        merged = AttentionStatistics(self.h, self.e, self.names, scale=self.scale, median=self.median and other.median)
        merged.sums, merged.sequences = self.sums + other.sums, self.sequences + other.sequences
        merged.histogram = None if self.histogram is None or other.histogram is None else self.histogram + other.histogram
        return merged

    def state(self) -> dict[str, np.ndarray]:
        """Everything as arrays, by name."""
        state = {f"slices.{name}": np.array([i]) for i, name in enumerate(self.names)}
        state |= {"e": np.array([self.e, self.median], dtype=np.int64), "scale": np.array([self.scale])}
        state |= {"sums": self.sums, "sequences": self.sequences}
        return state if self.histogram is None else state | {"histogram": self.histogram}

    @classmethod
    def from_state(cls, state: dict[str, np.ndarray]) -> AttentionStatistics:
        """The inverse of `state`."""
        if state["sums"].shape[-1] != len(ROW_SUMS):
            raise ValueError("rows of attention in the format of another version of isoscope")
        order = {key.removeprefix("slices."): int(value[0]) for key, value in state.items() if key.startswith("slices.")}
        e, median = (int(value) for value in state["e"])
        self = cls(len(state["sums"]), e, sorted(order, key=order.__getitem__), scale=float(state["scale"][0]), median=bool(median))
        self.sums, self.sequences = state["sums"].copy(), state["sequences"].copy()
        self.histogram = state["histogram"].copy() if "histogram" in state else None
        return self


def _sequence_sums(values: Floats, received: np.ndarray) -> Floats:
    """Return (h, sums) what one sequence adds, from its rows (sums, h, r)."""
    column = dict(zip(ROW_SUMS, values, strict=True))
    rows = column["rows"].sum(1)
    top = received.max(1)
    lowest = np.where(column["rows"] > 0, column["minimum"], np.inf).min(1, initial=np.inf)
    sums = {
        "sequences": np.ones(len(rows)),
        "rows": rows,
        "share": column["share"].sum(1),
        "top": top,
        "sinks": top > SINK * rows,
        "highest": column["maximum"].max(1, initial=0.0),
        "lowest": lowest,
    }
    return np.where(rows[:, None] > 0, np.stack([sums[name] for name in SEQUENCE_SUMS], axis=-1), 0.0)
