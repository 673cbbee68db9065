"""Frames of speech, against a reference."""

import numpy as np
from transformers.audio_utils import mel_filter_bank, spectrogram

from isoscope.sources.speech import FRAME_RATE, HOP, QUIET, SIZE, WINDOW, filters, frames


def test_frames_are_those_of_a_reference():
    wave = np.random.default_rng(0).standard_normal(FRAME_RATE).astype(np.float32) * 0.1
    bank = mel_filter_bank(SIZE // 2 + 1, 40, 20, FRAME_RATE / 2, FRAME_RATE, norm=None, mel_scale="htk")
    np.testing.assert_allclose(filters(40), bank.T, atol=1e-9)
    power = spectrogram(wave, np.hanning(WINDOW), WINDOW, HOP, fft_length=SIZE, power=2.0, center=False, mel_filters=bank, mel_floor=0.0)
    np.testing.assert_allclose(frames(wave), np.log(power.T + QUIET), atol=2e-5)


def test_a_clip_shorter_than_a_window_has_no_frame():
    assert frames(np.zeros(WINDOW - 1, np.float32)).shape == (0, 40)
    assert frames(np.zeros(WINDOW, np.float32)).shape == (1, 40)
