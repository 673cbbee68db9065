"""One pass over a block of scores instead of ten, compiled by numba. Importing this file needs numba.

Rows are reduced one by one in the first-level cache. `attention_rows` does the same with torch if numba is not installed, or if the open
positions of a row have gaps.

exp(x) is written out as 2ᵏ · exp(rest), with the polynomial of Cephes' expf, so that the loop becomes vector instructions.
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


def _split_exponents(row: np.ndarray, high: np.float32, rest: np.ndarray, bits: np.ndarray) -> None:
    """Split x − high into k·ln 2 + rest, and write the bits of 2ᵏ. ln 2 is subtracted in two parts, so that no digit is lost."""
    for j in range(len(row)):
        x = row[j] - high
        x = x if x > SMALLEST else SMALLEST
        k = np.int32(x * _LOG2E - _HALF)  # x is at most 0, so truncation rounds to the nearest
        whole = np.float32(k)
        rest[j] = (x - whole * _LN2) - whole * _LN2_REST
        bits[j] = (k + _BIAS) << _MANTISSA


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


# Full fastmath would reorder the two subtractions of ln 2 and lose the digits that they keep.
_split_exponents_compiled = njit(fastmath={"contract"}, nogil=True, error_model="numpy", cache=True)(_split_exponents)
_find_extremes_compiled = njit(fastmath=True, nogil=True, error_model="numpy", cache=True)(_find_extremes)


def _reduce_rows(s: np.ndarray, start: np.ndarray, stop: np.ndarray, centred: bool, values: np.ndarray, received: np.ndarray) -> None:
    """Reduce each row between its start and its stop.

    Args:
        s: (m, n) scores; about their mean, in the end.
        start: (m,) where the open positions of a row begin.
        stop: (m,) where they end; a row with none is skipped.
        centred: whether rows have mean zero already.
        values: (8, m) in the order of `attention_rows`; the mean is added to the offset.
        received: (n,) the probabilities on each key are added.
    """
    m, n = s.shape
    e, bits = np.empty(n, np.float32), np.empty(n, np.int32)
    lows, highs, squares = np.empty(n // 8 + 1, np.float32), np.empty(n // 8 + 1, np.float32), np.empty(n // 8 + 1, np.float32)
    scale = bits.view(np.float32)  # the same memory: the bits of 2ᵏ read as a number
    for i in range(m):
        left, right = start[i], stop[i]
        size = right - left
        if size < 1:
            continue
        row = s[i, left:right]
        if not centred:
            mean = _ZERO
            for j in range(size):
                mean += row[j]
            mean /= np.float32(size)
            for j in range(size):
                row[j] -= mean
            values[0, i] += mean
        # With the largest score subtracted, every exponential is at most 1 and their sum at least 1: nothing overflows.
        low, high, square = _find_extremes_compiled(row, lows, highs, squares)
        _split_exponents_compiled(row, high, e, bits)
        total, dot = _ZERO, _ZERO
        for j in range(size):
            # exp(r) for |r| ≤ ln 2 / 2, times the 2ᵏ whose bits lie in `scale`.
            r = e[j]
            p = ((((C6 * r + C5) * r + C4) * r + C3) * r + C2) * r + _HALF
            p = (p * r * r + r + _ONE) * scale[j]
            e[j] = p
            total += p
            dot += p * (row[j] - high)
        weight = _ONE / total
        row_received = received[left:right]
        for j in range(size):
            row_received[j] += e[j] * weight
        values[1, i], values[2, i], values[3, i], values[4, i] = square, low, high, high
        values[5, i], values[6, i], values[7, i] = total, dot, e[0] if left == 0 else _ZERO


reduce_rows = njit(fastmath=True, nogil=True, error_model="numpy", cache=True)(_reduce_rows)
