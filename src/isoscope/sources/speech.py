"""Speech: the embedded clips, and files of sound, one clip each, at the rate they were recorded at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from math import gcd
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.extras import import_optional
from isoscope.core.source import Clip, FileItems, SourceKind, open_files

EMBEDDED = Path(__file__).parent / "data" / "speech"
BLOCK = 1 << 16
"""Frames that are decoded at a time; only their mean over the channels is kept."""

OVERSHOOT = 2.0
"""Lossy codecs leave [-1, 1] by a little, which is clipped; samples beyond this are in another unit."""

FRAME_RATE, HOP, WINDOW, SIZE = 16_000, 160, 400, 512
"""Of mel frames: samples a second, between two of them, in one, and in its transform."""
QUIET = 1e-6
"""Energy is counted from here."""

LONGEST = 1 << 28
"""Samples of a clip, all channels together: 93 minutes at 48 kHz. Silence in FLAC takes a thousandth of what it unfolds to."""
RATES = (1_000, 768_000)
"""Samples a second that are believed; a clip of 1 Hz would grow 16,000 times when it is resampled."""

UNKNOWN_SIZE = 0x7FFF0000
"""From here on the size in a .wav's header is what programs write that do not know it."""


def read_clip(file: BinaryIO, shown: str) -> Clip:
    """One clip as float32 and mono (the mean of its channels), not resampled; errors call it `shown`."""
    soundfile = import_optional("soundfile", shown)
    check_size(file, shown)
    try:
        with soundfile.SoundFile(file) as sound:
            rate, frames, guessed = sound.samplerate, sound.frames, sound.format == "MP3"
            if not RATES[0] <= rate <= RATES[1]:
                raise IsoscopeError(f"{shown} has {rate} samples a second, and {RATES[0]:,} to {RATES[1]:,} are read; write it anew.")
            samples = np.concatenate([np.empty(0, np.float32), *mono(sound, shown)])
    except (soundfile.SoundFileError, ValueError, OverflowError) as error:
        reason = str(error).rpartition(": ")[2].strip().rstrip(".")
        raise IsoscopeError(f"{shown} is not a readable sound file, or is damaged ({reason}); write it anew or leave it out.") from error
    if len(samples) < frames * (0.9 if guessed else 1):
        raise IsoscopeError(f"{shown} is cut short: it holds {len(samples)} of {frames} frames; write it anew or leave it out.")
    check_samples(samples, shown)
    return Clip(np.clip(samples, -1, 1, out=samples), rate)


def mono(sound: Any, shown: str) -> Iterator[np.ndarray]:
    """The mean over the channels, block after block; integers come scaled to [-1, 1]."""
    seen = 0
    while len(block := sound.read(max(1, BLOCK // sound.channels), dtype="float32", always_2d=True)):
        seen += block.size
        if seen > LONGEST:
            raise IsoscopeError(f"{shown} has more than {LONGEST:,} samples and is refused; cut it into shorter clips.")
        yield block.mean(axis=1)


def check_size(file: BinaryIO, shown: str) -> None:
    """Refuse a .wav with fewer bytes than its header says, of which the decoder would return the beginning without a word."""
    head, size = file.read(8), file.seek(0, os.SEEK_END)
    file.seek(0)
    stated = int.from_bytes(head[4:], "little") + 8
    if head[:4] == b"RIFF" and size < stated < UNKNOWN_SIZE:
        raise IsoscopeError(f"{shown} is cut short: it holds {size} of {stated} bytes; write it anew or leave it out.")


def check_samples(samples: np.ndarray, shown: str) -> None:
    """Refuse a clip of nothing, of what is no number, or in a unit that is not known."""
    if not len(samples):
        raise IsoscopeError(f"{shown} holds no samples: a clip must last at least one; leave it out.")
    strange = len(samples) - int(np.isfinite(samples).sum())
    if strange:
        raise IsoscopeError(f"{shown} holds {strange} samples that are NaN or infinite, of {len(samples)}; mend it or leave it out.")
    peak = float(np.abs(samples).max())
    if peak > OVERSHOOT:
        raise IsoscopeError(f"{shown} holds samples up to {peak:.4g}, and samples must lie in [-1, 1]; scale it and write it anew.")


def resampled(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """The clip at another rate: a polyphase low-pass filter, so that nothing above the new half rate folds back below it.

    >>> len(resampled(np.zeros(44_100, np.float32), 44_100, 16_000))
    16000
    """
    if rate == wanted:
        return samples
    from scipy.signal import resample_poly

    shared = gcd(rate, wanted)
    return np.asarray(resample_poly(samples, wanted // shared, rate // shared), np.float32)


def frames(wave: np.ndarray, bands: int = 40) -> np.ndarray:
    """(n, bands) float32 of a wave at `FRAME_RATE`: logarithms of the energy in bands of the mel scale, a frame each 10 ms.

    >>> frames(np.zeros(16_000, np.float32)).shape
    (98, 40)
    """
    if len(wave) < WINDOW:
        return np.empty((0, bands), np.float32)
    cut = np.lib.stride_tricks.sliding_window_view(wave.astype(np.float64), WINDOW)[::HOP]
    power = np.abs(np.fft.rfft(cut * np.hanning(WINDOW), SIZE)) ** 2
    return np.asarray(np.log(power @ filters(bands).T + QUIET), np.float32)


@lru_cache(maxsize=4)
def filters(bands: int) -> np.ndarray:
    """(bands, SIZE/2 + 1) triangles, evenly spaced on the mel scale from 20 Hz to half the rate."""
    low, high = (2595 * np.log10(1 + hertz / 700) for hertz in (20, FRAME_RATE / 2))
    edges = 700 * (10 ** (np.linspace(low, high, bands + 2) / 2595) - 1)
    hertz = np.arange(SIZE // 2 + 1) * FRAME_RATE / SIZE
    left, middle, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    return np.maximum(0, np.minimum((hertz - left) / (middle - left), (right - hertz) / (right - middle)))


def open_speech(spec: str, column: str | None, modality: str) -> FileItems | None:
    """The clips that `spec` means, or None; the first is read at once, so that a mistake is told before a model is loaded."""
    return open_files(spec, "speech", modality, EMBEDDED, read_clip)


ACCEPTS = "`embedded`, a .wav, .flac, .ogg or .mp3 file, a folder or pattern of them"
speech = SourceKind("speech", "speech", ACCEPTS, open_speech)
