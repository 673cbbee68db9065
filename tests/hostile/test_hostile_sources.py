"""Matrices, texts, clips, images and dumps that claim or unfold to more than they are."""

import bz2
import io
import json
import os
import stat
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile

from isoscope.core.errors import IsoscopeError
from isoscope.sources import open_source, speech
from isoscope.sources.arrays import open_array
from isoscope.sources.hub import HubSource
from isoscope.trust.arrays import array_file
from tests.cli.calling import isoscope
from tests.hostile.confined import confined, items, measured


def npy_header(shape, *, fortran=False, descr="<f4"):
    text = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def tensors(path, header, data=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data)
    return path


def lying_npz(path, claimed):
    """A deflated member that is said, in the archive's directory, to be `claimed` bytes long."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", npy_header((claimed // 32, 8)) + bytes(3200))
        archive.filelist[0].file_size = claimed
    return path


def test_headers_of_matrices_that_claim_what_is_not_there(tmp_path):
    for name, shape in (("rows", (10**15, 8)), ("wide", (8, 10**15)), ("both", (10**9, 10**9)), ("over", (1 << 62, 1 << 62))):
        (tmp_path / f"{name}.npy").write_bytes(npy_header(shape) + bytes(64))
        (tmp_path / f"{name}-fortran.npy").write_bytes(npy_header(shape, fortran=True) + bytes(64))
    (tmp_path / "deep.npy").write_bytes(npy_header("(" * 60 + ")" * 60) + bytes(64))
    (tmp_path / "long.npy").write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFFF) + b" " * 64)
    (tmp_path / "open.npy").write_bytes(npy_header("((((") + bytes(64))
    lying_npz(tmp_path / "lies.npz", 1 << 40)
    entry = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    tensors(tmp_path / "long.safetensors", b"")
    (tmp_path / "long.safetensors").write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    tensors(tmp_path / "deep.safetensors", b'{"a":' * 100_000 + b"1" + b"}" * 100_000)
    tensors(tmp_path / "over.safetensors", {"a": entry, "b": entry | {"data_offsets": [8, 24]}}, bytes(24))
    tensors(tmp_path / "beyond.safetensors", {"a": entry | {"shape": [1 << 40, 1], "data_offsets": [0, 1 << 42]}}, bytes(24))
    tensors(tmp_path / "away.safetensors", {"a": entry | {"data_offsets": [1 << 62, (1 << 62) + 16]}}, bytes(24))
    places = sorted(tmp_path.iterdir())
    words = ("truncated", "claims", "cannot be read", "lies over", "not a .safetensors", "is expected")
    for path, said in zip(places, confined(*map(measured, places), megabytes=300), strict=True):
        assert said.startswith(str(path)), said
        assert any(word in said for word in words), said


def test_an_archive_whose_bytes_cannot_be_what_it_claims(tmp_path):
    with pytest.raises(IsoscopeError, match=r"claims that x\.npy has 1,099,511,627,776 bytes, which it cannot"):
        open_array(lying_npz(tmp_path / "x.npz", 1 << 40))
    with zipfile.ZipFile(tmp_path / "y.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", npy_header((10, 8)) + bytes(320))
    with pytest.raises(IsoscopeError, match="in a compression that numpy does not write"):
        open_array(tmp_path / "y.npz")
    with zipfile.ZipFile(tmp_path / "z.npz", "w") as archive:
        for i in range(10_001):
            archive.writestr(f"{i}.npy", b"")
    with pytest.raises(IsoscopeError, match="holds 10,001 arrays, and 10,000 is the most"):
        open_array(tmp_path / "z.npz")


def test_an_archive_in_fortran_order_does_not_fill_the_disk(tmp_path, monkeypatch):
    from isoscope.trust.arrays import numpy_files

    np.savez_compressed(tmp_path / "x.npz", np.asfortranarray(np.ones((300, 40))))
    usage = numpy_files.shutil.disk_usage(tmp_path)._replace(free=100_000)
    monkeypatch.setattr(numpy_files.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(IsoscopeError, match=r"unfolds to 96,128 bytes, and .* has 100,000; save it again in C order"):
        next(open_array(tmp_path / "x.npz").blocks())


def test_a_bomb_of_zeros_is_read_in_blocks(tmp_path):
    """400 MB in 400 KB, of which the whole is never held; and a matrix so wide that 4096 of its rows would be 16 GB."""
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        member.write(npy_header((100, 1_000_000)))
        for _ in range(100):
            member.write(np.ones(1_000_000, np.float32).tobytes())
    assert (tmp_path / "x.npz").stat().st_size < 1 << 20
    call = f"max(b.nbytes for b in open_array({str(tmp_path / 'x.npz')!r}).blocks())"
    (said,) = confined(call, setup="from isoscope.sources.arrays import open_array", megabytes=300)
    assert 0 < int(said) <= array_file.MAX_BLOCK_BYTES


def test_parquet_that_repeats_one_value_without_end(tmp_path):
    """A few kilobytes each: a row of a thousand million numbers, and a thousand rows of the same 20 million characters."""
    values = pa.array(np.zeros(1 << 25, np.float32))
    rows = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    pq.write_table(pa.table({"x": rows}), tmp_path / "wide.parquet", compression="zstd")
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["a " * 10_000_000]))
    pq.write_table(pa.table({"text": long}), tmp_path / "text.parquet", compression="zstd")
    del values, rows, long
    assert max(path.stat().st_size for path in tmp_path.iterdir()) < 200_000
    wide, text = confined(measured(tmp_path / "wide.parquet"), items(tmp_path / "text.parquet"), megabytes=500)
    assert "more than 16,777,216 values and are refused; no matrix is so wide" in wide
    assert text == "1000"


@pytest.mark.parametrize("ending", ["jsonl", "txt"])
def test_a_line_without_an_end(tmp_path, ending):
    """Ten gigabytes on one line, of which the disk holds none."""
    path = tmp_path / f"a.{ending}"
    path.write_bytes(b'{"text": "' if ending == "jsonl" else b"text ")
    os.truncate(path, 10 << 30)
    (said,) = confined(items(path), megabytes=400)
    assert f"has a line of more than {1 << (25 if ending == 'jsonl' else 27):,} bytes at offset 0 and is refused" in said


def test_a_paragraph_without_an_end(tmp_path, monkeypatch):
    from isoscope.sources import text

    monkeypatch.setattr(text, "MAX_TEXT", 1000)
    (tmp_path / "a.txt").write_text("some words\n" * 200)
    with pytest.raises(IsoscopeError, match="has a paragraph of more than 1,000 characters and is refused; put blank lines into it"):
        open_source(str(tmp_path / "a.txt"))


def test_json_within_json_without_end(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n' + "[" * 200_000)
    said = confined(items(tmp_path / "a.jsonl"), megabytes=300)
    assert "line 2 is not JSON (it is nested too deeply)" in said[0]


def wav(rate=16_000, channels=1, samples=b"\0\0" * 100, claimed=None):
    size = len(samples) if claimed is None else claimed
    form = struct.pack("<HHIIHH", 1, channels, rate, (rate * channels * 2) & 0xFFFFFFFF, (channels * 2) & 0xFFFF, 16)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", size) + samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


def test_headers_of_clips_that_claim_what_is_not_there(tmp_path):
    rates = [{"rate": 1}, {"rate": 0x7FFFFFFF}]
    others = [{"rate": 0}, {"channels": 0}, {"channels": 65535}, {"claimed": 0xFFFFFFF0}, {"claimed": 0x7FFFFFF0}]
    places = [tmp_path / f"{i}.wav" for i in range(len(rates + others))]
    for path, what in zip(places, rates + others, strict=True):
        path.write_bytes(wav(**what))
    said = confined(*(items(path, "speech") for path in places), megabytes=400)
    assert "has 1 samples a second, and 1,000 to 768,000 are read" in said[0]
    assert "samples a second, and 1,000 to 768,000 are read" in said[1]
    for path, answer in zip(places, said, strict=True):
        assert answer == "1" or answer.startswith(str(path)), answer


def test_silence_that_unfolds(tmp_path, monkeypatch):
    monkeypatch.setattr(speech, "MAX_SAMPLES", 1_000_000)
    with soundfile.SoundFile(tmp_path / "a.flac", "w", 48_000, 1) as sound:
        for _ in range(20):
            sound.write(np.zeros(65536))
    assert (tmp_path / "a.flac").stat().st_size < 20_000
    with pytest.raises(IsoscopeError, match=r"a\.flac has more than 1,000,000 samples and is refused; cut it into shorter clips"):
        open_source(str(tmp_path / "a.flac"), None, "speech")


def png(width, height):
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


def test_images_that_unfold(tmp_path):
    import PIL.Image

    (tmp_path / "a.png").write_bytes(png(100_000, 100_000))
    (tmp_path / "b.png").write_bytes(png(0x7FFFFFFF, 0x7FFFFFFF))
    (tmp_path / "c.png").write_bytes(png(12_000, 12_000))
    PIL.Image.new("1", (40_000, 40_000)).save(tmp_path / "d.tif", compression="group4")
    buffer = io.BytesIO()
    PIL.Image.new("L", (8, 8)).save(buffer, "JPEG")
    raw = bytearray(buffer.getvalue())
    at = raw.index(b"\xff\xc0") + 5
    raw[at : at + 4] = b"\xff\xff\xff\xff"
    (tmp_path / "e.jpg").write_bytes(raw)
    places = sorted(tmp_path.iterdir())
    for said in confined(*(items(path, "images") for path in places), setup="import PIL.Image, PIL.ImageOps", megabytes=300):
        assert "which is refused as a decompression bomb" in said, said


def test_an_image_that_would_start_another_program_is_none(tmp_path, monkeypatch):
    """Pillow hands PostScript to Ghostscript, whatever the file is called."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gs").write_text(f"#!/bin/sh\nmkdir {tmp_path}/ran\n")
    (tmp_path / "bin" / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n(x) run\nshowpage\n%%EOF\n")
    with pytest.raises(IsoscopeError, match=r"a\.png is not an image that can be read"):
        open_source(str(tmp_path / "a.png"), None, "images")
    assert not (tmp_path / "ran").exists()


def test_dumps_that_unfold(tmp_path):
    start = b"<mediawiki><page><title>A</title><text>"
    (tmp_path / "a.bz2").write_bytes(bz2.compress(start + b"x" * (30 << 20)))
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_LZMA) as archive, archive.open("dump", "w") as member:
        member.write(start)
        for _ in range(40):
            member.write(b"<!-- -->" * (1 << 17))
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        for i in range(1001):
            archive.writestr(str(i), b"")
    page, bomb, many = confined(*(items(path) for path in sorted(tmp_path.iterdir())), megabytes=300)
    assert "unfolds to more than 200 times its size" in page
    assert "unfolds to more than 200 times its size" in bomb
    assert "holds 1,001 files, and one dump is expected" in many


def test_rows_of_a_dataset_lead_only_to_its_own_files(tmp_path):
    hub = HubSource("org/set", None, None, "train", "abc", "speech")
    assert hub.owns("hf://datasets/org/set@abc/train/a.wav")
    assert hub.owns("zip://a.wav::hf://datasets/org/set@abc/train.zip")
    for path in (
        "/etc/passwd",
        "file:///etc/passwd",
        "http://10.0.0.1/x",
        "hf://datasets/other/set@abc/a.wav",
        "hf://datasets/org/set2@a/x",
    ):
        assert not hub.owns(path), path
        assert not hub.owns(f"zip://a.wav::{path}"), path
    assert not hub.owns("simplecache::hf://datasets/org/set@abc/a")
    assert not hub.owns("hf://datasets/org/set@abc/../../other/x")
    with pytest.raises(IsoscopeError, match=r"has a row that leads out of it \('/etc/hostname'\); it was not followed"):
        hub.open_cell({"bytes": None, "path": "/etc/hostname"})
    local = HubSource(str(tmp_path), None, None, "train", "main", "speech")
    (tmp_path / "out.wav").symlink_to("/etc/hostname")
    assert local.owns(str(tmp_path / "train" / "a.wav"))
    assert not local.owns(str(tmp_path / "out.wav"))
    assert not local.owns(f"{tmp_path}/../x.wav")


def test_pipes_and_devices_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "a.txt")
    (tmp_path / "b.txt").symlink_to("/dev/zero")
    assert stat.S_ISFIFO((tmp_path / "a.txt").stat().st_mode)
    with pytest.raises(IsoscopeError, match="holds no file that a source can read as text"):
        open_source(str(tmp_path))


def test_a_matrix_too_large_for_the_machine_is_one_sentence(tmp_path):
    """A header that is true, of a file without content: 100,000 columns ask for 80 GB of second moments."""
    path = tmp_path / "x.npy"
    path.write_bytes(npy_header((100_000, 100_000)))
    os.truncate(path, 128 + 4 * 10**10)
    answer = isoscope("embeddings", path, "-q", "--metric", "effective_rank")
    answer.refused("has 100,000 columns, whose second moments take 80 GB, and ", "GB are free")
