"""The sums of a block in one pass over its points, compiled by numba; importing this file needs it.

`kernel` gives the same sums in several passes if numba is not installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

ROWS = 128
"""Points added up in float32 before their sums are added in float64: short enough to keep digits, and long enough to vectorise."""
_ZERO, _ONE, _LARGEST = np.float32(0.0), np.float32(1.0), np.finfo(np.float32).max


def _one_pass(x: np.ndarray, weight: np.ndarray, norm2: np.ndarray, sums: np.ndarray, tiny: Any) -> None:
    """Add the points (t, g, d) that have a weight (g, t) to (3, g, d) Σu, Σx and Σu²; ‖x‖² (g, t) is 1 where a point does not count.

    A point that has no length, or none that is finite, is in no sum.
    """
    t, g, d = x.shape
    part = np.empty((3, g, d), np.float32)
    for start in range(0, t, ROWS):
        part[:] = _ZERO
        for i in range(start, min(start + ROWS, t)):
            for j in range(g):
                if weight[j, i] == _ZERO:
                    norm2[j, i] = _ONE
                    continue
                row, units, total, squares = x[i, j], part[0, j], part[1, j], part[2, j]
                length = _ZERO
                for k in range(d):
                    length += row[k] * row[k]
                norm2[j, i] = length
                if not (length <= _LARGEST and length > tiny):  # neither is true of NaN
                    continue
                inverse = _ONE / np.sqrt(length)
                for k in range(d):
                    u = row[k] * inverse
                    units[k] += u
                    total[k] += row[k]
                    squares[k] += u * u
        for s in range(3):
            for j in range(g):
                for k in range(d):
                    sums[s, j, k] += part[s, j, k]


# These flags let the compiler reorder sums, which vectorises them. `nnan` and `ninf` are left out: the test for NaN and infinity above
# would be removed as always true. numpy's error model divides by zero without a check that would stop the vectorisation.
one_pass = njit(fastmath={"reassoc", "contract", "nsz", "arcp"}, nogil=True, error_model="numpy", cache=True)(_one_pass)


def add_sums(x: np.ndarray, weight: np.ndarray, tiny: float) -> tuple[np.ndarray, np.ndarray]:
    """‖x‖² of the float32 points (g, t, d), and (3, g, d) Σu, Σx and Σu² in float64 of those that have a weight (g, t)."""
    norm2, sums = np.empty(weight.shape, np.float32), np.zeros((3, len(x), x.shape[2]))
    by_point = x.swapaxes(0, 1)
    if by_point.flags.c_contiguous and not x.flags.c_contiguous:  # the memory order of a projection's heads: no copy
        one_pass(by_point, weight, norm2, sums, np.float32(tiny))
    else:
        for i in range(len(x)):
            at = slice(i, i + 1)
            one_pass(np.ascontiguousarray(x[i])[:, None], weight[at], norm2[at], sums[:, at], np.float32(tiny))
    return norm2, sums
