"""Files that are written array by array are those of the format: the library itself reads them."""

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from isoscope.runs.tensors import NAMES, read_cursor, read_partial, write_partial, write_tensors


def test_the_library_reads_what_was_written(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {f'ä {kind.name} "quoted"/1': (rng.random((3, 2)) * 100).astype(kind) for kind in NAMES}
    arrays |= {"none": np.zeros((0, 4)), "single": np.array(3.5), "turned": rng.random((4, 5)).T, "part": rng.random((6, 6))[::2, 1:4]}
    write_tensors(arrays.items, tmp_path / "file", {"cursor": '{"items": 3}'})
    found = load_file(tmp_path / "file")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    with safe_open(tmp_path / "file", framework="numpy") as file:
        assert file.metadata() == {"cursor": '{"items": 3}'}


def test_nothing_is_held_but_one_array(tmp_path):
    """What is given is asked for twice, in the same order, and let go before the next."""
    alive, most, asked = 0, 0, []

    class Counted(np.ndarray):
        def __del__(self):
            nonlocal alive
            alive -= self.base is None

    def arrays():
        nonlocal alive, most
        for i in range(5):
            asked.append(i)
            one = np.ndarray.__new__(Counted, (10,))
            one[:] = i
            alive += 1
            most = max(most, alive)
            yield str(i), one
            del one

    write_tensors(arrays, tmp_path / "file")
    assert asked == [*range(5)] * 2
    assert most <= 2
    assert load_file(tmp_path / "file")["4"].tolist() == [4.0] * 10


def test_a_type_that_the_format_does_not_have_is_an_error(tmp_path):
    with pytest.raises(KeyError):
        write_tensors({"x": np.zeros(2, complex)}.items, tmp_path / "file")


@pytest.mark.parametrize("items", [-1, 2**63, 1.5, "3"])
def test_a_cursor_that_no_stream_can_have_counts_as_damaged(tmp_path, items):
    write_partial(tmp_path / "good", {"items": 2**63 - 1}, {"x": np.zeros(2)}.items)
    assert read_partial(tmp_path / "good")[0] == {"items": 2**63 - 1}
    write_partial(tmp_path / "bad", {"items": items}, {"x": np.zeros(2)}.items)
    assert read_cursor(tmp_path / "bad") is None
    assert read_partial(tmp_path / "bad") is None
