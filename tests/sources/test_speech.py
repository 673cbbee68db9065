"""Clips: decoded alike from every format, named, hashed, resampled without aliases, and a sentence for every mistake."""

import io
import shutil
import sys
import tracemalloc

import numpy as np
import pytest
import soundfile
from transformers.audio_utils import mel_filter_bank, spectrogram

from isoscope.core.errors import IsoscopeError
from isoscope.core.source import Clip
from isoscope.sources import open_source
from isoscope.sources.speech import BLOCK, FRAME_RATE, HOP, QUIET, SIZE, WINDOW, mel_filters, mel_frames, read_clip, resample


def sine(frequency, rate=16_000, seconds=1.0, height=0.5):
    return (height * np.sin(2 * np.pi * frequency * np.arange(int(rate * seconds)) / rate)).astype(np.float32)


def write(path, samples, rate=16_000, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate, **options)
    return str(path)


def only(spec):
    (item,) = open_source(spec).items()
    return item.content


def level(samples, rate, frequency):
    """The amplitude of one frequency, without the ends, in decibels of full scale."""
    middle = samples[len(samples) // 4 : -len(samples) // 4]
    wave = np.exp(-2j * np.pi * frequency * np.arange(len(middle)) / rate)
    return 20 * np.log10(2 * abs(np.mean(middle * wave)) + 1e-12)


@pytest.mark.parametrize(
    ("name", "options", "tolerance"),
    [
        ("a.wav", {"subtype": "PCM_16"}, 2**-15),
        ("a.wav", {"subtype": "PCM_24"}, 2**-23),
        ("a.wav", {"subtype": "PCM_U8"}, 2**-6),
        ("a.wav", {"subtype": "FLOAT"}, 0),
        ("a.FLAC", {"subtype": "PCM_16"}, 2**-15),
        ("a.ogg", {}, 0.03),
        ("a.mp3", {}, 0.03),
    ],
)
def test_every_format_gives_the_same_wave(tmp_path, name, options, tolerance):
    wave = sine(440)
    clip = only(write(tmp_path / name, wave, **options))
    assert isinstance(clip, Clip)
    assert (clip.rate, clip.samples.dtype, clip.samples.shape) == (16_000, np.float32, (16_000,))
    assert np.abs(clip.samples - wave)[200:-200].max() <= tolerance


def test_channels_are_averaged_over_every_block(tmp_path):
    left, right = sine(300, seconds=BLOCK / 16_000 * 2.5), sine(900, seconds=BLOCK / 16_000 * 2.5, height=0.25)
    clip = only(write(tmp_path / "a.wav", np.column_stack([left, right]), subtype="FLOAT"))
    np.testing.assert_array_equal(clip.samples, (left + right) / 2)


def test_nothing_is_resampled_and_overshoot_is_clipped(tmp_path):
    clip = only(write(tmp_path / "a.wav", np.array([0, 1.5, -1.01, 0.5], np.float32), 44_100, subtype="FLOAT"))
    assert clip.rate == 44_100
    assert clip.samples.tolist() == [0, 1, -1, 0.5]


@pytest.mark.parametrize(("rate", "wanted"), [(16_000, 8_000), (44_100, 16_000), (8_000, 16_000), (11_025, 16_000)])
def test_a_sine_keeps_its_frequency_and_height(rate, wanted):
    result = resample(sine(440, rate, 2), rate, wanted)
    assert result.dtype == np.float32
    assert len(result) == pytest.approx(2 * wanted, abs=1)
    np.testing.assert_allclose(result[wanted // 2 : -wanted // 2], sine(440, wanted, 2)[wanted // 2 : -wanted // 2], atol=2e-3)


def test_frequencies_above_half_the_new_rate_vanish():
    tone = sine(6_000, 16_000, 2, height=1)
    result = resample(tone, 16_000, 8_000)
    assert level(tone, 16_000, 6_000) == pytest.approx(0, abs=0.01)
    assert level(result, 8_000, 2_000) < -40
    assert 20 * np.log10(np.sqrt(2) * np.sqrt(np.mean(result[4000:-4000] ** 2)) + 1e-12) < -40
    assert level(tone[::2], 8_000, 2_000) > -1  # what plain decimation would have left


def test_the_same_rate_changes_nothing():
    wave = sine(440)
    assert resample(wave, 16_000, 16_000) is wave


def test_a_folder_is_read_in_the_order_of_names(tmp_path):
    for i, name in enumerate(["z.wav", "b/deep/a.FLAC", "b/c.ogg", "a10.mp3", "a9.wav"]):
        write(tmp_path / name, sine(200 * (i + 1)))
    (tmp_path / "notes.txt").write_text("not a clip")
    (tmp_path / ".hidden.wav").write_bytes(b"not read")
    source = open_source(str(tmp_path), modality="speech")
    assert (source.modality, source.name) == ("speech", tmp_path.name)
    assert [item.id for item in source.items()] == ["a10.mp3", "a9.wav", "b/c.ogg", "b/deep/a.FLAC", "z.wav"]
    assert [item.id for item in source.items()] == [item.id for item in source.items()]
    assert open_source(str(tmp_path)).modality == "text"
    # A pattern all of whose files are clips is speech whatever was expected; among files of several kinds the modality chooses.
    assert [item.id for item in open_source(str(tmp_path / "**" / "*.wav")).items()] == ["a9.wav", "z.wav"]
    assert [item.id for item in open_source(str(tmp_path / "*"), None, "speech").items()] == ["a10.mp3", "a9.wav", "z.wav"]
    assert open_source(str(tmp_path / "*"), None, "text").modality == "text"
    (tmp_path / "readme.md").write_text("neither")
    with pytest.raises(
        IsoscopeError, match=r"also matches .*readme\.md, not a \.wav, \.flac, \.ogg or \.mp3 file; narrow it, as in \*\*/\*\.wav"
    ):
        open_source(str(tmp_path / "*"), None, "speech")


def test_the_order_of_the_disk_does_not_matter(tmp_path, monkeypatch):
    import glob

    for name in "cab":
        write(tmp_path / f"{name}.wav", sine(440, seconds=0.01))
    first = open_source(str(tmp_path), modality="speech")
    forward = glob.iglob
    monkeypatch.setattr(glob, "iglob", lambda *words, **options: sorted(forward(*words, **options), reverse=True))
    second = open_source(str(tmp_path), modality="speech")
    assert [item.id for item in second.items()] == [item.id for item in first.items()] == ["a.wav", "b.wav", "c.wav"]
    assert second.fingerprint == first.fingerprint


def test_the_fingerprint_survives_a_copy_and_follows_content_and_names(tmp_path):
    write(tmp_path / "here/x/a.wav", sine(440))
    write(tmp_path / "here/b.wav", sine(220))
    shutil.copytree(tmp_path / "here", tmp_path / "there/deeper")
    here, there = (open_source(str(tmp_path / folder), modality="speech") for folder in ("here", "there/deeper"))
    assert here.fingerprint == there.fingerprint
    assert [item.id for item in here.items()] == [item.id for item in there.items()] == ["b.wav", "x/a.wav"]
    (tmp_path / "there/deeper/b.wav").rename(tmp_path / "there/deeper/c.wav")
    assert open_source(str(tmp_path / "there/deeper"), modality="speech").fingerprint != here.fingerprint
    write(tmp_path / "here/b.wav", sine(221))
    assert open_source(str(tmp_path / "here"), modality="speech").fingerprint != here.fingerprint


def test_one_clip_is_held_at_a_time(tmp_path):
    write(tmp_path / "000.wav", sine(440, seconds=16), subtype="FLOAT")  # a MB as float32
    for i in range(1, 40):
        shutil.copy(tmp_path / "000.wav", tmp_path / f"{i:03}.wav")
    only(str(tmp_path / "000.wav"))  # imports are not counted
    tracemalloc.start()
    source = open_source(str(tmp_path), modality="speech")
    assert sum(len(item.content.samples) for item in source.items()) == 40 * 256_000
    assert source.fingerprint
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 << 20


def damaged(path, name):
    write(path / name, sine(440, seconds=4))
    raw = (path / name).read_bytes()
    (path / name).write_bytes(raw[: len(raw) // 2])


@pytest.mark.parametrize(
    ("name", "make", "sentence"),
    [
        (
            "a.wav",
            lambda path, name: (path / name).write_bytes(b""),
            r"a\.wav is not a readable sound file, or is damaged \(Format not recognised\)",
        ),
        (
            "a.mp3",
            lambda path, name: (path / name).write_bytes(b"no sound" * 99),
            r"a\.mp3 (is not a readable sound file|holds no samples)",
        ),
        ("a.wav", damaged, r"a\.wav is cut short: it holds 64022 of 128044 bytes; write it again or leave it out"),
        ("a.flac", damaged, r"a\.flac is not a readable sound file, or is damaged \(.+\)"),
        ("a.mp3", damaged, r"a\.mp3 is cut short: it holds \d+ of 64000 frames"),
        ("a.ogg", damaged, r"a\.ogg (is cut short|is not a readable|holds no samples)"),
        ("a.wav", lambda path, name: write(path / name, np.zeros(0)), r"a\.wav holds no samples: a clip must last at least one"),
        (
            "a.wav",
            lambda path, name: write(path / name, np.array([0, np.nan, np.inf, 0], np.float32), subtype="FLOAT"),
            r"a\.wav holds 2 samples that are NaN or infinite, of 4; correct it",
        ),
        (
            "a.wav",
            lambda path, name: write(path / name, sine(440, height=20_000), subtype="FLOAT"),
            r"a\.wav holds samples up to 2e\+04, and samples must lie in \[-1, 1\]; scale it",
        ),
    ],
)
def test_damaged_or_unsuitable_clips_are_refused_in_one_sentence(tmp_path, name, make, sentence):
    make(tmp_path, name)
    with pytest.raises(IsoscopeError, match=sentence):
        open_source(str(tmp_path / name))


def test_a_later_file_that_is_damaged_is_named(tmp_path):
    write(tmp_path / "a.wav", sine(440))
    damaged(tmp_path, "b.wav")
    with pytest.raises(IsoscopeError, match=r"b\.wav is cut short"):
        list(open_source(str(tmp_path), modality="speech").items())


def test_a_stream_whose_header_does_not_know_its_size_is_read(tmp_path):
    write(tmp_path / "a.wav", sine(440))
    raw = bytearray((tmp_path / "a.wav").read_bytes())
    raw[4:8] = raw[40:44] = b"\xff\xff\xff\xff"
    assert len(read_clip(io.BytesIO(bytes(raw)), "stream").samples) == 16_000


def test_the_package_is_missing(tmp_path, monkeypatch):
    path = write(tmp_path / "a.wav", sine(440))
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(IsoscopeError, match=r"a\.wav needs the package soundfile: pip install 'isoscope\[speech\]'\.$"):
        open_source(path)


def test_the_embedded_clips():
    source = open_source("embedded", modality="speech")
    clips = {item.id: item.content for item in source.items()}
    assert (source.name, source.modality, len(clips)) == ("embedded", "speech", 5)
    assert {clip.rate for clip in clips.values()} == {16_000}
    assert sum(len(clip.samples) for clip in clips.values()) / 16_000 == pytest.approx(24.7, abs=0.1)
    for clip in clips.values():
        assert 0.1 < np.abs(clip.samples).max() <= 1
        assert 0.01 < clip.samples.std() < 0.3
    assert source.fingerprint != open_source("embedded").fingerprint


def test_mel_frames_equal_those_of_transformers():
    wave = np.random.default_rng(0).standard_normal(FRAME_RATE).astype(np.float32) * 0.1
    bank = mel_filter_bank(SIZE // 2 + 1, 40, 20, FRAME_RATE / 2, FRAME_RATE, norm=None, mel_scale="htk")
    np.testing.assert_allclose(mel_filters(40), bank.T, atol=1e-9)
    power = spectrogram(wave, np.hanning(WINDOW), WINDOW, HOP, fft_length=SIZE, power=2.0, center=False, mel_filters=bank, mel_floor=0.0)
    np.testing.assert_allclose(mel_frames(wave), np.log(power.T + QUIET), atol=2e-5)


def test_a_clip_shorter_than_a_window_has_no_frame():
    assert mel_frames(np.zeros(WINDOW - 1, np.float32)).shape == (0, 40)
    assert mel_frames(np.zeros(WINDOW, np.float32)).shape == (1, 40)
