"""Rows of attention in compiled code. Importing this file needs numba.

`reduce_rows` takes one pass over a block of scores, row by row in the first-level cache. `attention_rows` does the same with torch if
numba is not installed, or if the open positions of a row have gaps.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SMALLEST = np.float32(-80.0)
"""Smaller exponents are raised to this one: they add nothing, and arithmetic with numbers too small to be normal is slow."""
_LOG2E, _HALF, _ZERO, _ONE = np.float32(1.44269504), np.float32(0.5), np.float32(0.0), np.float32(1.0)
_LN2, _LN2_REST = np.float32(0.693359375), np.float32(-2.12194440e-4)
_BIAS, _MANTISSA = np.int32(127), np.int32(23)
C6, C5, C4, C3, C2 = (np.float32(c) for c in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1))


# Full fastmath would reorder the two subtractions of ln 2 and lose the digits that they keep.
@njit(fastmath={"contract"}, nogil=True, error_model="numpy", cache=True)
def exp(x: np.float32) -> np.float32:
    """exp(x) for x ≤ 0, as 2ᵏ · exp(rest) with the polynomial of Cephes' expf: written out, a loop over it becomes vector instructions.

    numba's own exp is a call per number, unless Intel's library of vector functions is installed.
    """
    x = x if x > SMALLEST else SMALLEST
    k = np.int32(x * _LOG2E - _HALF)  # x is at most 0, so truncation rounds to the nearest
    whole = np.float32(k)
    r = (x - whole * _LN2) - whole * _LN2_REST  # ln 2 in two parts, so that no digit is lost; |r| ≤ ln 2 / 2
    p = ((((C6 * r + C5) * r + C4) * r + C3) * r + C2) * r + _HALF
    return np.float32((p * r * r + r + _ONE) * np.int32((k + _BIAS) << _MANTISSA).view(np.float32))


@njit(fastmath=True, nogil=True, error_model="numpy", cache=True)
def _find_extremes(row: np.ndarray, lows: np.ndarray, highs: np.ndarray, squares: np.ndarray) -> tuple[np.float32, np.float32, np.float32]:
    """The smallest and the largest of a row, and Σx². Eight parts of the row side by side become vector instructions."""
    n = len(row)
    w = n // 8
    low, high, total = row[0], row[0], _ZERO
    for j in range(w):
        a, b, c, d = row[j], row[w + j], row[2 * w + j], row[3 * w + j]
        e, f, g, h = row[4 * w + j], row[5 * w + j], row[6 * w + j], row[7 * w + j]
        lows[j] = min(min(min(a, b), min(c, d)), min(min(e, f), min(g, h)))
        highs[j] = max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h)))
        squares[j] = a * a + b * b + c * c + d * d + e * e + f * f + g * g + h * h
    for j in range(w):
        low, high = min(low, lows[j]), max(high, highs[j])
        total += squares[j]
    for j in range(8 * w, n):
        x = row[j]
        low, high = min(low, x), max(high, x)
        total += x * x
    return low, high, total


@njit(fastmath=True, nogil=True, error_model="numpy", cache=True)
def reduce_rows(s: np.ndarray, start: np.ndarray, stop: np.ndarray, centred: bool, values: np.ndarray, received: np.ndarray) -> None:
    """Reduce each row between its start and its stop.

    Args:
        s: (m, n) scores; about their mean, in the end.
        start: (m,) where the open positions of a row begin.
        stop: (m,) where they end; a row with none is skipped.
        centred: whether rows that see all keys have mean zero already.
        values: (8, m) in the order of `attention_rows`; the mean is added to the offset.
        received: (n,) the probabilities on each key are added.
    """
    m, n = s.shape
    e = np.empty(n, np.float32)
    lows, highs, squares = np.empty(n // 8 + 1, np.float32), np.empty(n // 8 + 1, np.float32), np.empty(n // 8 + 1, np.float32)
    for i in range(m):
        left, right = start[i], stop[i]
        size = right - left
        if size < 1:
            continue
        row = s[i, left:right]
        if not (centred and size == n):
            mean = _ZERO
            for j in range(size):
                mean += row[j]
            mean /= np.float32(size)
            for j in range(size):
                row[j] -= mean
            values[0, i] += mean
        # With the largest score subtracted, every exponential is at most 1 and their sum at least 1: nothing overflows.
        low, high, square = _find_extremes(row, lows, highs, squares)
        total, dot = _ZERO, _ZERO
        for j in range(size):
            x = row[j] - high
            p = exp(x)
            e[j] = p
            total += p
            dot += p * x
        weight = _ONE / total
        row_received = received[left:right]
        for j in range(size):
            row_received[j] += e[j] * weight
        values[1, i], values[2, i], values[3, i], values[4, i] = square, low, high, high
        values[5, i], values[6, i], values[7, i] = total, dot, e[0] if left == 0 else _ZERO


@njit("i8[:,::1](f4[:,:,:,::1], b1[:,:,:,::1], i4, i8)", nogil=True, error_model="numpy", cache=True)
def count_scores(scores: np.ndarray, is_open: np.ndarray, lowest: np.int32, bins: int) -> np.ndarray:
    """(h, 2 · bins + 1) the open scores (b, h, r, s) of each head, in the bins of `attention_statistics.score_counts`."""
    b, h, r, s = scores.shape
    counts = np.zeros((h, 2 * bins + 1), np.int64)
    for i in range(b):
        for j in range(h):
            of_head = counts[j]
            for k in range(r):
                row = scores[i, j, k].view(np.int32)
                for m in range(s):
                    if is_open[i, j, k, m]:
                        code = min(max(((row[m] & np.int32(0x7FFFFFFF)) >> np.int32(19)) - lowest, 0), bins)
                        of_head[bins - code if row[m] < 0 else bins + code] += 1
    return counts
