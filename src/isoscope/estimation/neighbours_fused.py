"""The passes of the neighbour search, compiled by numba; importing this file needs it.

`neighbours_plain` does the same if numba is not installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

WIDTH = 32
"""Products that are rejected together, by comparisons without a branch."""
_NONE = np.int32(0)
_UNIT = 2.0**-24

# Scores of −inf and ties between candidates must be compared as they are, so these passes allow no fast mathematics. Sums may be reordered:
# the margins around them hold for any order.
_exact = njit(nogil=True, error_model="numpy", cache=True)
_summing = njit(fastmath={"reassoc", "contract", "nsz"}, nogil=True, error_model="numpy", cache=True)


@_exact
def fingerprints(bits: Any, sign: Any, shift: Any, factors: Any, hashes: Any, largest: Any) -> None:
    """A hash of each row of bits, in which −0.0 is 0.0, and the bits of its largest absolute value."""
    nothing = np.uint64(0)
    for i in range(bits.shape[0]):
        row, total, top = bits[i], nothing, nothing
        for c in range(bits.shape[1]):
            value = np.uint64(row[c])
            size = value & ~sign
            value = nothing if size == nothing else value
            total += (value ^ (value >> shift)) * factors[c]
            top = max(top, size)
        hashes[i], largest[i] = total, top


@_summing
def centre(points: Any, kept: Any, middle: Any, scale: Any, start: int, stop: int, centred: Any, half: Any) -> None:
    """Rows start to stop of (kept points − middle)·scale in float32, and half of the squared length of each."""
    for i in range(start, stop):
        row, out, total = points[kept[i]], centred[i], 0.0
        for c in range(row.shape[0]):
            out[c] = np.float32((np.float64(row[c]) - middle[c]) * scale)
        for c in range(row.shape[0]):
            total += np.float64(out[c]) * np.float64(out[c])
        half[i] = 0.5 * total


@_exact
def _replace_worst(scores: Any, indices: Any, row: int, m: int, score: Any, index: int) -> Any:
    """Replace a row's worst candidate, which leads a heap of m, and return the new worst score."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= m:
            break
        if child + 1 < m and scores[row, child + 1] < scores[row, child]:
            child += 1
        if scores[row, child] >= score:
            break
        scores[row, at], indices[row, at] = scores[row, child], indices[row, child]
        at = child
    scores[row, at], indices[row, at] = score, index
    return scores[row, 0]


@_exact
def _next_above(row: Any, theirs: Any, limits: Any, own: Any, mine: Any, begin: int) -> int:
    """Return where the next few products begin, one of which is above a limit. They are compared together, without a branch."""
    for at in range(begin, row.shape[0], WIDTH):
        products, lowered, limit = row[at : at + WIDTH], theirs[at : at + WIDTH], limits[at : at + WIDTH]
        some = _NONE
        for c in range(products.shape[0]):
            # 32 bits wide like the products, so that one vector instruction compares as many flags as products.
            some |= np.int32(products[c] - lowered[c] > mine) | np.int32(products[c] - own > limit[c])
        if some != _NONE:
            return at
    return int(row.shape[0])


@_exact
def offer(products: Any, first: int, second: int, lowered: Any, limit: Any, scores: Any, indices: Any) -> None:
    """Offer the pairs of a block of products, once each, to the candidates of their rows and of their columns.

    The block starts at row `first` and column `second`. A pair that it holds twice is offered once, and no point is offered to itself.
    """
    columns, m = products.shape[1], scores.shape[1]
    theirs, limits = lowered[second : second + columns], limit[second : second + columns]
    for r in range(products.shape[0]):
        i = first + r
        # Only columns beyond i change in this row, so the row's own limit can stay in a local variable until its end.
        row, own, mine = products[r], lowered[i], limit[i]
        begin = _next_above(row, theirs, limits, own, mine, max(0, i + 1 - second))
        while begin < columns:
            for c in range(begin, min(begin + WIDTH, columns)):
                for_row, for_column = row[c] - theirs[c], row[c] - own
                if for_row > mine or for_column > limits[c]:
                    j = second + c
                    if for_row > mine:
                        mine = _replace_worst(scores, indices, i, m, for_row, j)
                    if for_column > limits[c]:
                        limits[c] = _replace_worst(scores, indices, j, m, for_column, i)
            begin = _next_above(row, theirs, limits, own, mine, begin + WIDTH)
        limit[i] = mine


@_summing
def _squared_distance(a: Any, b: Any) -> float:
    total = 0.0
    for c in range(a.shape[0]):
        difference = np.float64(a[c]) - np.float64(b[c])
        total += difference * difference
    return total


@_exact
def _insert(squares: Any, chosen: Any, value: float, index: int) -> None:
    """Put a point in its place among the nearest; of equally near points the first is preferred."""
    at = squares.shape[0] - 1
    if value > squares[at] or (value == squares[at] and index > chosen[at]):
        return
    while at > 0 and (squares[at - 1] > value or (squares[at - 1] == value and chosen[at - 1] > index)):
        squares[at], chosen[at] = squares[at - 1], chosen[at - 1]
        at -= 1
    squares[at], chosen[at] = value, index


@_exact
def _best_first(scores: Any, indices: Any, row: int) -> None:
    """Take the worst off the heap again and again."""
    for last in range(scores.shape[1] - 1, 0, -1):
        score, index = scores[row, last], indices[row, last]
        scores[row, last], indices[row, last] = scores[row, 0], indices[row, 0]
        _replace_worst(scores, indices, row, last, score, index)


@_exact
def refine(
    points: Any, kept: Any, start: int, stop: int, scores: Any, indices: Any, ceiling: Any, unscaled: float, squares: Any, chosen: Any
) -> None:
    """The nearest among the candidates of rows start to stop, by direct differences.

    Candidates are taken in the order of their scores. The first whose least distance, (ceiling − score)·unscaled even after rounding, is
    too large ends the row.
    """
    for i in range(start, stop):
        _best_first(scores, indices, i)  # then the first candidate that is too far ends the row: the others have worse scores
        row, nearest, found = points[kept[i]], squares[i], chosen[i]
        for c in range(indices.shape[1]):
            j = indices[i, c]
            score = np.float64(scores[i, c])
            if j < 0 or (ceiling[i] - score - _UNIT * abs(score)) * unscaled > nearest[-1]:
                break
            _insert(nearest, found, _squared_distance(row, points[kept[j]]), j)


@_exact
def reconsider(products: Any, rows: Any, second: int, lowered: Any, needed: Any, points: Any, kept: Any, squares: Any, chosen: Any) -> None:
    """The nearest of a few rows among the columns of a block whose products do not rule them out, by direct differences."""
    for r in range(rows.shape[0]):
        i = rows[r]
        for c in range(products.shape[1]):
            j = second + c
            if products[r, c] - lowered[j] >= needed[r] and i != j:
                _insert(squares[i], chosen[i], _squared_distance(points[kept[i]], points[kept[j]]), j)
