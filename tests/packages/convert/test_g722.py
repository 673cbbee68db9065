"""G.722: that it is bit for bit a reference codec is tested on real prompts, in tests/models/loading/test_load.py."""

import numpy as np

from isoscope.packages.convert import g722
from isoscope.packages.convert.g722 import decode


def codes(length, seed):
    return np.random.default_rng(seed).integers(0, 256, length, dtype=np.uint8).tobytes()


def test_recordings_are_decoded_side_by_side_as_alone():
    recordings = [codes(300, 0), codes(120, 1), codes(450, 2)]
    for together, recording in zip(decode(recordings), recordings, strict=True):
        (alone,) = decode([recording])
        np.testing.assert_array_equal(together, alone)
        assert len(alone) == 2 * len(recording)


def test_a_cut_recording_joins_without_a_seam(monkeypatch):
    """A piece is decoded from a second before its beginning: the state of the decoder is right again by then."""
    speech = np.tile(np.frombuffer(codes(400, 4), np.uint8), 60).tobytes()
    (whole,) = decode([speech])
    monkeypatch.setattr(g722, "PIECE", 10_000)
    (cut,) = decode([speech])
    np.testing.assert_array_equal(cut, whole)
