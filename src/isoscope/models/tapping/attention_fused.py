"""Rows of attention in compiled code. Importing this file needs numba.

`reduce_rows` takes one pass over a block of scores, row by row in the first-level cache. `reduce_heads` also takes the products: it goes
through the heads of a sequence without a step of Python in between. `attention_rows` does the same with torch if numba is not installed,
or if the open positions of a row have gaps.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SMALLEST = np.float32(-80.0)
"""Smaller exponents are raised to this one: they add nothing, and arithmetic with numbers too small to be normal is slow."""
POINTS = 128
"""Keys added up in float32 before their sum is added in float64."""
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


@njit(fastmath={"contract", "nsz", "arcp", "reassoc"}, nogil=True, error_model="numpy", cache=True)
def _centre_keys(key: np.ndarray, place: int, step: int, scale: np.float32, centre: bool, out: np.ndarray, mean: np.ndarray) -> None:
    """Write keys, times the scale, to `out` (n, e), about their mean on request, and that mean, times the scale, to `mean`.

    The first of them begins at `place` in `key`, and each other `step` numbers further.
    """
    n, e = out.shape
    total, part = np.zeros(e), np.empty(e, np.float32)
    for first in range(0, n if centre else 0, POINTS):
        part[:] = _ZERO
        for i in range(first, min(first + POINTS, n)):
            row = key[place + i * step : place + i * step + e]
            for d in range(e):
                part[d] += row[d]
        for d in range(e):
            total[d] += part[d]
    for d in range(e):
        part[d] = np.float32(total[d] / n)
        mean[d] = part[d] * scale
    for i in range(n):
        row, into = key[place + i * step : place + i * step + e], out[i]
        for d in range(e):
            into[d] = (row[d] - part[d]) * scale


@njit(fastmath={"contract", "nsz", "arcp", "reassoc"}, nogil=True, error_model="numpy", cache=True)
def _copy_queries(query: np.ndarray, place: int, step: int, mean: np.ndarray, out: np.ndarray, offset: np.ndarray) -> None:
    """Write queries, as `_centre_keys` finds keys, to `out` (m, e), and the product of each with the mean key to `offset`."""
    m, e = out.shape
    for i in range(m):
        row, into, dot = query[place + i * step : place + i * step + e], out[i], _ZERO
        for d in range(e):
            into[d] = row[d]
            dot += row[d] * mean[d]
        offset[i] = dot


# Of a strided array numba does not know that the numbers of a vector lie side by side, and would read them one by one. So queries and
# keys are flat memory here, with the distances between heads and between vectors.
_PLACES = "f4[::1], UniTuple(i8, 2)"
_SCRATCH = "f4[::1], f4[:,::1], f4[:,::1]"
_SIGNATURE = f"void({_PLACES}, {_PLACES}, i8, f4, f4[:,:,::1], i8[::1], i8[::1], b1, {_SCRATCH}, f4[:,:,:], f4[:,::1])"


@njit(_SIGNATURE, nogil=True, error_model="numpy", cache=True)
def reduce_heads(
    query: np.ndarray,
    query_steps: tuple[int, int],
    key: np.ndarray,
    key_steps: tuple[int, int],
    shared: int,
    scale: np.float32,
    bias: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
    centre: bool,
    scores: np.ndarray,
    keys: np.ndarray,
    queries: np.ndarray,
    values: np.ndarray,
    received: np.ndarray,
) -> None:
    """Reduce the rows of several heads of one sequence, block by block.

    Args:
        query: the queries of h heads, in one piece of memory.
        query_steps: how far apart heads, and the queries of a head, begin.
        key: the keys.
        key_steps: the same of keys.
        shared: how many heads use the same keys.
        scale: scores are scale · q kᵀ + bias.
        bias: (1 or h, 1 or m, n), or without rows if nothing is added.
        start: (m,) where the open positions of a row begin, the same for all heads.
        stop: (m,) where they end.
        centre: whether keys are taken about their mean.
        scores: room for the scores of a block.
        keys: (n, e) room for the keys of a head.
        queries: (rows of a block, e) room for the queries of a block.
        values: (8, h, m) in the order of `attention_rows`; those of a row that sees nothing stay as they are.
        received: (h, n) the probabilities on each key are added.
    """
    m, (n, e), step = len(start), keys.shape, len(queries)
    mean, mass, block_values = np.empty(e, np.float32), np.empty(n, np.float32), np.empty((values.shape[0], step), np.float32)
    for j in range(values.shape[1]):
        if j % shared == 0:
            _centre_keys(key, j // shared * key_steps[0], key_steps[1], scale, centre, keys, mean)
        for first in range(0, m, step):
            size = min(step, m - first)
            low, high = n, 0
            for i in range(first, first + size):
                if stop[i] > start[i]:
                    low, high = min(low, start[i]), max(high, stop[i])
            if high <= low:
                continue
            width = high - low
            s = scores[: size * width].reshape(size, width)
            _copy_queries(query, j * query_steps[0] + first * query_steps[1], query_steps[1], mean, queries[:size], block_values[0])
            np.dot(queries[:size], keys[low:high].T, s)
            for i in range(size if bias.shape[1] else 0):
                row, added = s[i], bias[j if len(bias) > 1 else 0, first + i if bias.shape[1] > 1 else 0, low:high]
                for k in range(width):
                    row[k] += added[k]
            lefts, rights = start[first : first + size] - low, stop[first : first + size] - low
            mass[:width] = _ZERO
            # About the mean of all keys, scores of rows that see all keys have mean zero.
            reduce_rows(s, lefts, rights, centre and width == n and not bias.shape[1], block_values, mass[:width])
            for k in range(width):
                received[j, low + k] += mass[k]
            for i in range(size):
                if rights[i] > lefts[i]:
                    for v in range(values.shape[0]):
                        values[v, j, first + i] = block_values[v, i] if v < 7 or not low else _ZERO


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
