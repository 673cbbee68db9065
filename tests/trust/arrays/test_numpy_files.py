"""Headers and archives of numpy that claim what they do not hold."""

import struct
import zipfile

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.sources.arrays import open_array

X = np.random.default_rng(0).standard_normal((1003, 17)).astype(np.float32)


def test_a_member_shorter_than_its_header_says(tmp_path):
    np.save(tmp_path / "x.npy", X)
    for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "x.npz", "w", kind) as archive:
            archive.writestr("x.npy", (tmp_path / "x.npy").read_bytes()[:-4])
            archive.writestr("padding", bytes(1000))
        with pytest.raises(IsoscopeError, match="is truncated: 68204 bytes of values are promised, 68200 are there"):
            open_array(tmp_path / "x.npz")


@pytest.mark.parametrize("shape", ["((((", "(3,\n", "{'a'", "9" * 5000, "(" * 3000])
def test_headers_that_are_no_literal(tmp_path, shape):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}".encode()
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
    with pytest.raises(IsoscopeError, match=r"is not an \.npy array: its header cannot be read"):
        open_array(tmp_path / "x.npy")


def test_an_archive_whose_member_lies_before_its_start(tmp_path):
    np.savez(tmp_path / "x.npz", np.ones((4, 3)))
    raw = bytearray((tmp_path / "x.npz").read_bytes())
    at = raw.rindex(b"PK\x05\x06")
    raw[at + 16 : at + 20] = struct.pack("<I", 0x7FFFFFFF)
    (tmp_path / "x.npz").write_bytes(raw)
    with pytest.raises(IsoscopeError, match=r"is not a readable \.npz archive, or is damaged"):
        open_array(tmp_path / "x.npz")
