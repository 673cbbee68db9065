"""Speech: the embedded clips, and sound files, one clip each, at the rate of the recording; and its mel frames."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from math import gcd
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from isoscope.core.errors import IsoscopeError, import_optional
from isoscope.core.source import Clip
from isoscope.sources._item_files import file_items_kind

BLOCK = 1 << 16
"""Samples, over all channels, that are decoded at a time. Only their mean over the channels is kept."""
MAX_AMPLITUDE = 2.0
"""Lossy codecs exceed [-1, 1] a little, which is clipped. Samples beyond this value must be in another unit."""
MAX_SAMPLES = 1 << 28
"""Samples of a clip over all channels: 93 minutes at 48 kHz. FLAC stores silence in a thousandth of its decoded size."""
RATES = (1_000, 768_000)
"""Plausible samples per second. A clip at 1 Hz would grow 16,000 times when it is resampled."""
UNKNOWN_SIZE = 0x7FFF0000
"""Programs that do not know the size of a .wav write a number from here on into its header."""

FRAME_RATE, HOP, WINDOW, SIZE = 16_000, 160, 400, 512
"""Of mel frames: samples per second, samples from one frame to the next, samples in a frame, and length of its Fourier transform."""
QUIET = 1e-6
"""Energy added before the logarithm, so that the logarithm of silence is finite."""


def read_clip(file: BinaryIO, shown: str) -> Clip:
    """One clip as float32 and mono (the mean of its channels), not resampled; errors call it `shown`."""
    soundfile = import_optional("soundfile", shown)
    check_wav_size(file, shown)
    try:
        with soundfile.SoundFile(file) as sound:
            # A block at a time, and mono at once: eight channels would otherwise take eight times the memory.
            rate, frames, estimated = sound.samplerate, sound.frames, sound.format == "MP3"
            if not RATES[0] <= rate <= RATES[1]:
                raise IsoscopeError(f"{shown} has {rate} samples a second, and {RATES[0]:,} to {RATES[1]:,} are read; write it again.")
            samples = np.concatenate([np.empty(0, np.float32), *mono_blocks(sound, shown)])
    except (soundfile.SoundFileError, ValueError, OverflowError) as error:
        reason = str(error).rpartition(": ")[2].strip().rstrip(".")
        raise IsoscopeError(f"{shown} is not a readable sound file, or is damaged ({reason}); write it again or leave it out.") from error
    if len(samples) < frames * (0.9 if estimated else 1):  # the header of an MP3 only estimates its length
        raise IsoscopeError(f"{shown} is cut short: it holds {len(samples)} of {frames} frames; write it again or leave it out.")
    check_samples(samples, shown)
    return Clip(np.clip(samples, -1, 1, out=samples), rate)


def mono_blocks(sound: Any, shown: str) -> Iterator[np.ndarray]:
    """The mean over the channels, block by block. Integers come scaled to [-1, 1]."""
    count = 0
    while len(block := sound.read(max(1, BLOCK // sound.channels), dtype="float32", always_2d=True)):
        count += block.size
        if count > MAX_SAMPLES:
            raise IsoscopeError(f"{shown} has more than {MAX_SAMPLES:,} samples and is refused; cut it into shorter clips.")
        yield block.mean(axis=1)


def check_wav_size(file: BinaryIO, shown: str) -> None:
    """Refuse a .wav with fewer bytes than its header states: the decoder would silently return its beginning."""
    head, size = file.read(8), file.seek(0, os.SEEK_END)
    file.seek(0)
    stated = int.from_bytes(head[4:], "little") + 8
    if head[:4] == b"RIFF" and size < stated < UNKNOWN_SIZE:
        raise IsoscopeError(f"{shown} is cut short: it holds {size} of {stated} bytes; write it again or leave it out.")


def check_samples(samples: np.ndarray, shown: str) -> None:
    """Refuse a clip without samples, with NaN or infinity, or in an unknown unit."""
    if not len(samples):
        raise IsoscopeError(f"{shown} holds no samples: a clip must last at least one; leave it out.")
    nonfinite = len(samples) - int(np.isfinite(samples).sum())
    if nonfinite:
        raise IsoscopeError(f"{shown} holds {nonfinite} samples that are NaN or infinite, of {len(samples)}; correct it or leave it out.")
    peak = float(np.abs(samples).max())
    if peak > MAX_AMPLITUDE:
        raise IsoscopeError(f"{shown} holds samples up to {peak:.4g}, and samples must lie in [-1, 1]; scale it and write it again.")


def resample(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """The clip at another rate, by a polyphase low-pass filter: nothing above half the new rate folds back below it.

    >>> len(resample(np.zeros(44_100, np.float32), 44_100, 16_000))
    16000
    """
    if rate == wanted:
        return samples
    from scipy.signal import resample_poly

    shared = gcd(rate, wanted)  # 44,100 to 16,000 is 160 to 441: the filter's length grows with these numbers
    return np.asarray(resample_poly(samples, wanted // shared, rate // shared), np.float32)


def mel_frames(wave: np.ndarray, bands: int = 40) -> np.ndarray:
    """(n, bands) float32: the log energy in bands of the mel scale, one frame per 10 ms of a wave at `FRAME_RATE`.

    >>> mel_frames(np.zeros(16_000, np.float32)).shape
    (98, 40)
    """
    if len(wave) < WINDOW:
        return np.empty((0, bands), np.float32)
    # A view: no window is copied before it is multiplied by the taper.
    windows = np.lib.stride_tricks.sliding_window_view(wave.astype(np.float64), WINDOW)[::HOP]
    power = np.abs(np.fft.rfft(windows * np.hanning(WINDOW), SIZE)) ** 2
    return np.asarray(np.log(power @ mel_filters(bands).T + QUIET), np.float32)


@lru_cache(maxsize=4)
def mel_filters(bands: int) -> np.ndarray:
    """(bands, SIZE/2 + 1) triangles, evenly spaced on the mel scale from 20 Hz to half the rate."""
    low, high = (2595 * np.log10(1 + hertz / 700) for hertz in (20, FRAME_RATE / 2))
    edges = 700 * (10 ** (np.linspace(low, high, bands + 2) / 2595) - 1)
    hertz = np.arange(SIZE // 2 + 1) * FRAME_RATE / SIZE
    left, middle, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    return np.maximum(0, np.minimum((hertz - left) / (middle - left), (right - hertz) / (right - middle)))


ACCEPTS = "`embedded`, a .wav, .flac, .ogg or .mp3 file, a folder or pattern of them"
speech = file_items_kind("speech", ACCEPTS, Path(__file__).parent / "data" / "speech", read_clip)
