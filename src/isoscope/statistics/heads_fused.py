"""The sums of all heads of a sequence in one pass, compiled by numba; importing this file needs it.

`HeadSums` finds the same in several passes where numba is not installed.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from isoscope.statistics.kernel import TILE_ROWS, TINY

_ZERO, _ONE, _TINY, _LARGEST = np.float32(0.0), np.float32(1.0), np.float32(TINY), np.finfo(np.float32).max


def _fused(x: np.ndarray, keep: np.ndarray, counts: np.ndarray, total: np.ndarray, directions: np.ndarray, squared: np.ndarray) -> int:
    """Add the points (t, h, e) that are kept (t,) to (4, h) counts and (h, e) Σx, Σu and Σu²; how many of them are not finite.

    Sums of 128 points are taken in float32 and added up in float64, as the kernel does.
    """
    t, h, e = x.shape
    bad = 0
    part = np.empty((3, h, e), np.float32)
    for start in range(0, t, TILE_ROWS):
        part[:] = _ZERO
        for i in range(start, min(start + TILE_ROWS, t)):
            if not keep[i]:
                continue
            for j in range(h):
                row, sums, units, squares = x[i, j], part[0, j], part[1, j], part[2, j]
                length = _ZERO
                for k in range(e):
                    length += row[k] * row[k]
                if not length <= _LARGEST:  # true of NaN too
                    bad += 1
                    continue
                counts[0, j] += 1
                counts[2, j] += np.sqrt(np.float64(length))
                counts[3, j] += length
                inverse = _ZERO
                if length > _TINY:
                    counts[1, j] += 1
                    inverse = _ONE / np.sqrt(length)
                for k in range(e):
                    u = row[k] * inverse
                    sums[k] += row[k]
                    units[k] += u
                    squares[k] += u * u
        for j in range(h):
            for k in range(e):
                total[j, k] += part[0, j, k]
                directions[j, k] += part[1, j, k]
                squared[j, k] += part[2, j, k]
    return bad


fused = njit(fastmath={"reassoc", "contract", "nsz", "arcp"}, nogil=True, error_model="numpy", cache=True)(_fused)
