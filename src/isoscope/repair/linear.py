"""The one form that every repair has: z ↦ z·(diag(scale) + into·back) of centred points z."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isoscope.core.arrays import Floats
from isoscope.repair.errors import RepairError
from isoscope.statistics.matrix import READ_ROWS


@dataclass(frozen=True)
class Linear:
    """A diagonal plus a product of thin matrices, so that removing k directions costs n·d·k and never a (d, d) matrix.

    >>> Linear(scale=1.0, into=-np.eye(2)[:, :1], back=np.eye(2)[:1])(np.array([[3.0, 4.0]])).tolist()
    [[0.0, 4.0]]
    """

    scale: Floats | float | None = None  # (d,) or one number; None is no diagonal part
    into: Floats | None = None  # (d, k)
    back: Floats | None = None  # (k, d'); None stays in the k directions

    def __call__(self, z: Floats) -> Floats:
        """The image of the rows of z, (m, d)."""
        along = None
        if self.into is not None:
            along = z @ self.into
            along = along if self.back is None else along @ self.back
        if self.scale is None:
            assert along is not None
            return along
        kept = z * self.scale
        return kept if along is None else kept + along


def in_blocks(X: np.ndarray, image: Callable[[Floats], Floats], width: int) -> np.ndarray:
    """The image of every row, taken in float64 a block at a time; float64 for float64, float32 for what is narrower.

    An offset of a thousand leaves float32 four digits of the difference x − x̄, hence the float64 inside.
    """
    out = np.empty((len(X), width), dtype=np.float64 if X.dtype.itemsize > 4 else np.float32)
    for start in range(0, len(X), READ_ROWS):
        block = X[start : start + READ_ROWS].astype(np.float64)
        refuse_nonfinite(block, start)
        out[start : start + READ_ROWS] = image(block)
    return out


def refuse_nonfinite(block: Floats, start: int) -> None:
    """An error that names the first row with NaN or infinity."""
    bad = ~np.isfinite(block).all(1)
    if bad.any():
        row = start + int(bad.argmax())
        raise RepairError(f"X has NaN or infinity, first in row {row}; remove or mend such rows first.")
