"""A decoder of ITU-T G.722 at 64 kbit/s: bytes in, 16-bit samples at 16 kHz out.

Each byte holds six bits of the lower band and two of the upper. A band is predicted from its past by two poles and six zeros, the code
corrects the prediction, and a pair of mirror filters joins the bands. Each step needs the one before it, so many recordings are decoded
side by side; arrays have one row per band and one column per recording.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# fmt: off
LOW_6 = np.array([
    -136, -136, -136, -136, -24808, -21904, -19008, -16704, -14984, -13512, -12280, -11192, -10232, -9360, -8576, -7856,
    -7192, -6576, -6000, -5456, -4944, -4464, -4008, -3576, -3168, -2776, -2400, -2032, -1688, -1360, -1040, -728,
    24808, 21904, 19008, 16704, 14984, 13512, 12280, 11192, 10232, 9360, 8576, 7856, 7192, 6576, 6000, 5456,
    4944, 4464, 4008, 3576, 3168, 2776, 2400, 2032, 1688, 1360, 1040, 728, 432, 136, -432, -136])
LOW_4 = np.array([0, -20456, -12896, -8968, -6288, -4240, -2584, -1200, 20456, 12896, 8968, 6288, 4240, 2584, 1200, 0])
LOW_STEP = np.array([-60, 3042, 1198, 538, 334, 172, 58, -30, 3042, 1198, 538, 334, 172, 58, -30, -60])
HIGH_2 = np.array([-7408, -1616, 7408, 1616])
HIGH_STEP = np.array([798, -214, 798, -214])
MANTISSA = np.array([
    2048, 2093, 2139, 2186, 2233, 2282, 2332, 2383, 2435, 2489, 2543, 2599, 2656, 2714, 2774, 2834,
    2896, 2960, 3025, 3091, 3158, 3228, 3298, 3371, 3444, 3520, 3597, 3676, 3756, 3838, 3922, 4008])
MIRROR = np.array([3, -11, 12, 32, -210, 951, 3876, -805, 362, -156, 53, -11])
# fmt: on
PIECE, LEAD = 4 * 8000, 8000
"""Bytes of a piece, and of what is decoded before it and thrown away; 8000 are a second."""
TOP_STEP = np.array([[18432], [22528]])
SCALES = np.stack(
    [[(MANTISSA[(nb >> 6) & 31] << 4 >> (shift + 4 - (nb >> 11))) << 2 for nb in range(TOP_STEP[1, 0] + 1)] for shift in (8, 10)]
)
"""The size of a quantiser's step by the logarithm of it, for both bands."""


def _clip_to_16_bits(values: np.ndarray) -> np.ndarray:
    """The nearest values that 16 bits hold."""
    clipped: np.ndarray = np.minimum(np.maximum(values, -32768), 32767)
    return clipped


class _Predictor:
    """Both bands of several recordings: poles, zeros, the values they apply to, and the size of a step."""

    def __init__(self, count: int) -> None:
        self.zeros, self.differences = np.zeros((2, 6, 2, count), int)
        self.poles, self.past, self.signs = np.zeros((3, 2, 2, count), int)
        self.from_zeros, self.prediction, self.logarithm = np.zeros((3, 2, count), int)
        self.scale = np.array([[32], [8]]).repeat(count, axis=1)

    def keep(self, count: int) -> None:
        """Drop all but the first recordings."""
        for name, values in vars(self).items():
            setattr(self, name, values[..., :count].copy())

    def update(self, difference: np.ndarray, step: np.ndarray) -> None:
        """Adapt to this sample and predict the next one."""
        self.logarithm = np.minimum(np.maximum((self.logarithm * 127 >> 7) + step, 0), TOP_STEP)
        self.scale = np.stack([SCALES[0][self.logarithm[0]], SCALES[1][self.logarithm[1]]])
        sign = _clip_to_16_bits(self.from_zeros + difference) >> 15
        same, before = sign == self.signs[0], sign == self.signs[1]
        pull = _clip_to_16_bits(self.poles[0] << 2)
        second = (np.minimum(np.where(same, -pull, pull), 32767) >> 7) + np.where(before, 128, -128) + (self.poles[1] * 32512 >> 15)
        second = np.minimum(np.maximum(second, -12288), 12288)
        bound = 15360 - second
        first = np.where(same, 192, -192) + (self.poles[0] * 32640 >> 15)
        first = np.minimum(np.maximum(first, -bound), bound)
        agree = (self.differences >> 15) == (difference >> 15)
        self.zeros = (self.zeros * 32640 >> 15) + np.where(agree, 128, -128) * (difference != 0)
        self.differences = np.concatenate([difference[None], self.differences[:-1]])
        self.past = np.stack([_clip_to_16_bits(self.prediction + difference), self.past[0]])
        self.signs = np.stack([sign, self.signs[0]])
        self.poles = np.stack([first, second])
        from_poles = _clip_to_16_bits((self.poles * _clip_to_16_bits(self.past << 1) >> 15).sum(0))
        self.from_zeros = _clip_to_16_bits((self.zeros * _clip_to_16_bits(self.differences << 1) >> 15).sum(0))
        self.prediction = _clip_to_16_bits(from_poles + self.from_zeros)


def _join_bands(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Both bands through the mirror filters: two samples for each pair."""
    even = np.convolve(low - high, MIRROR)[: len(low)]
    odd = np.convolve(low + high, MIRROR[::-1])[: len(low)]
    return _clip_to_16_bits(np.stack([even, odd], axis=1).ravel() >> 11).astype(np.int16)


def _decode_bands(pieces: Sequence[bytes]) -> list[np.ndarray]:
    """Both bands of each piece, the longest first inside, so that those still running are always the first columns."""
    order = sorted(range(len(pieces)), key=lambda i: -len(pieces[i]))
    lengths = [len(pieces[i]) for i in order]
    codes = np.zeros((lengths[0], len(order)), np.uint8)
    for column, i in enumerate(order):
        codes[: lengths[column], column] = np.frombuffer(pieces[i], np.uint8)
    bands = np.zeros((lengths[0], 2, len(order)), np.int16)
    state, active = _Predictor(len(order)), len(order)
    for at in range(lengths[0]):
        if lengths[active - 1] <= at:
            active = sum(length > at for length in lengths)
            state.keep(active)
        code = codes[at, :active]
        low, high = code & 63, code >> 6
        upper = state.scale[1] * HIGH_2[high] >> 15
        fine = np.stack([state.scale[0] * LOW_6[low] >> 15, upper])
        bands[at, :, :active] = np.minimum(np.maximum(state.prediction + fine, -16384), 16383)
        coarse = low >> 2
        state.update(np.stack([state.scale[0] * LOW_4[coarse] >> 15, upper]), np.stack([LOW_STEP[coarse], HIGH_STEP[high]]))
    decoded = {i: bands[:length, :, column] for column, (i, length) in enumerate(zip(order, lengths, strict=True))}
    return [decoded[i] for i in range(len(pieces))]


def decode(recordings: Sequence[bytes]) -> list[np.ndarray]:
    """The samples of each recording.

    Long ones are cut, so that all take about as many steps: the decoder forgets its past exponentially, and a second is enough of it.
    """
    cuts = [(i, at) for i, recording in enumerate(recordings) for at in range(0, len(recording), PIECE)]
    pieces = _decode_bands([recordings[i][max(0, at - LEAD) : at + PIECE] for i, at in cuts])
    whole: list[list[np.ndarray]] = [[] for _ in recordings]
    for (i, at), bands in zip(cuts, pieces, strict=True):
        whole[i].append(bands[min(at, LEAD) :])
    return [_join_bands(*np.concatenate(parts).astype(int).T) for parts in whole]
