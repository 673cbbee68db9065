"""The header of .safetensors: bfloat16, entries that contradict themselves, unknown types."""

import json
import struct

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.sources.arrays import open_array


def write_safetensors(path, entries, data):
    header = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return path


def test_bfloat16_is_the_upper_half_of_float32(tmp_path):
    x = np.array([[1.0, -2.5], [3.140625, np.inf], [2.0**-130, -0.0]], np.float32)  # each exact in bfloat16
    bits = (x.view(np.uint32) >> 16).astype("<u2")
    path = write_safetensors(tmp_path / "x.safetensors", {"x": {"dtype": "BF16", "shape": [3, 2], "data_offsets": [0, 12]}}, bits.tobytes())
    (block,) = open_array(path).blocks()
    assert block.dtype == np.float32
    np.testing.assert_array_equal(block.view(np.uint32), x.view(np.uint32))


@pytest.mark.parametrize(
    "entry", [{"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 12]}, {"dtype": "F32", "shape": [-1, 2]}, [], {"shape": [2, 2]}]
)
def test_safetensors_entries_that_contradict_themselves(tmp_path, entry):
    path = write_safetensors(tmp_path / "x.safetensors", {"x": entry}, bytes(16))
    with pytest.raises(IsoscopeError, match=r"the entry of 'x' in its header lacks a sound dtype, shape or data_offsets"):
        open_array(path)


def test_a_type_that_safetensors_knows_and_this_does_not(tmp_path):
    path = write_safetensors(tmp_path / "x.safetensors", {"x": {"dtype": "F8_E4M3", "shape": [2, 2], "data_offsets": [0, 4]}}, bytes(4))
    with pytest.raises(IsoscopeError, match=r"holds x as F8_E4M3, and one of F64, F32"):
        open_array(path)
