"""Tensors of torch.save, read without torch: what torch writes is read exactly, and nothing in the file is ever called."""

import collections
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.sources.arrays import open_array
from isoscope.trust.arrays.torch_files import MAX_VALUES, ForeignPickleError, list_tensors

torch = pytest.importorskip("torch")


def saved(path, value):
    torch.save(value, path)
    return path


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_tensor_of_every_type_and_order_is_read_exactly(tmp_path, dtype, transposed):
    x = (torch.randn(50, 7, generator=torch.Generator().manual_seed(0)) * 10).to(getattr(torch, dtype))
    x = x.T if transposed else x
    matrix = open_array(saved(tmp_path / "x.pt", x))
    assert (matrix.n, matrix.d) == tuple(x.shape)
    np.testing.assert_array_equal(np.concatenate(list(matrix.blocks(3))), x.double().numpy())
    np.testing.assert_array_equal(np.concatenate(list(matrix.blocks(3, 2, 6))), x.double().numpy()[2:6])


def test_a_state_dict_is_chosen_from_by_key_and_its_only_matrix_is_found(tmp_path):
    table = torch.nn.Embedding(30, 4)
    path = saved(tmp_path / "x.pt", {"words": ["a", "b"], "epoch": 3, "model": collections.OrderedDict(table.state_dict())})
    np.testing.assert_array_equal(next(open_array(path).blocks()), table.weight.detach().numpy())
    assert open_array(path).name == "x.pt"
    two = saved(tmp_path / "two.pt", {"a": table.weight, "b": [torch.ones(5, 2)]})
    np.testing.assert_array_equal(next(open_array(two, "b.0").blocks()), np.ones((5, 2)))
    with pytest.raises(IsoscopeError, match="several matrices: a "):
        open_array(two)
    with pytest.raises(IsoscopeError, match="no array called 'c'"):
        open_array(two, "c")


def test_rows_of_a_larger_tensor_are_read_from_its_middle(tmp_path):
    whole = torch.arange(40.0).reshape(10, 4)
    np.testing.assert_array_equal(next(open_array(saved(tmp_path / "x.pt", whole[3:7])).blocks()), whole[3:7].numpy())
    with pytest.raises(IsoscopeError, match=r"is a view of another tensor; save tensor\.contiguous"):
        open_array(saved(tmp_path / "y.pt", whole[:, 1:3]))
    with pytest.raises(IsoscopeError, match="is a view"):
        open_array(saved(tmp_path / "z.pt", torch.ones(1, 3).expand(5, 3)))


class Mine:
    def __reduce__(self):
        return (print, ("called",))


@pytest.mark.parametrize("value", [Mine(), {"x": Mine()}, torch.nn.Linear(2, 2)], ids=["object", "inside", "module"])
def test_anything_but_tensors_is_named_and_never_called(tmp_path, value, capsys):
    path = saved(tmp_path / "x.pt", value)
    with pytest.raises(IsoscopeError, match=r"holds more than plain tensors .* and was not loaded"):
        open_array(path)
    assert capsys.readouterr().out == ""


def replaced(path, raw):
    """The same archive with another pickle."""
    torch.save(torch.ones(4, 2), path)
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, raw if name.endswith("data.pkl") else content)
    return path


def test_a_list_within_itself_ends(tmp_path):
    endless: list = []
    endless.append(endless)
    doubled = [[]]
    for _ in range(40):
        doubled = [doubled, doubled]
    for value in (endless, doubled):
        with pytest.raises(IsoscopeError, match="more than 1,048,576 values, or deeper than 64"):
            open_array(replaced(tmp_path / "x.pt", pickle.dumps(value, 2)))


def test_a_long_list_is_refused_before_it_takes_more_memory():
    tracemalloc.start()
    with pytest.raises(ForeignPickleError, match="more than 1,048,576 values"):
        list(list_tensors([None] * (MAX_VALUES + 1)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * MAX_VALUES, "the list itself takes 8 bytes per value, and the path of each would take 100"


def test_values_beyond_the_end_of_the_archive_are_reported(tmp_path):
    raw = bytearray(saved(tmp_path / "x.pt", torch.ones(4, 2)).read_bytes())
    name = raw.rindex(b"/data/0")
    entry = raw.rindex(b"PK\1\2", 0, name)
    raw[entry + 42 : entry + 46] = (len(raw) - 10).to_bytes(4, "little")
    (tmp_path / "x.pt").write_bytes(raw)
    with pytest.raises(IsoscopeError, match=r"x\.pt is not a readable \.pt archive.* save it again with torch\.save\.$"):
        open_array(tmp_path / "x.pt")


@pytest.mark.parametrize("raw", [b"", b".", b"\x80\x02}.", b"\x80\x02cposix\nsystem\n.", b"\x80\x02K\x01K\x02s.", b"(R.", b"\xff" * 99])
def test_a_damaged_pickle_is_a_user_error(tmp_path, raw):
    with pytest.raises(IsoscopeError):
        open_array(replaced(tmp_path / "x.pt", raw))


def test_other_files_by_that_name_are_user_errors(tmp_path):
    (tmp_path / "x.pt").write_bytes(b"hello")
    with pytest.raises(IsoscopeError, match="no archive of torch"):
        open_array(tmp_path / "x.pt")
    torch.save(torch.ones(4, 2), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(IsoscopeError, match="no archive of torch"):
        open_array(tmp_path / "old.pt")
    whole = saved(tmp_path / "cut.pt", torch.ones(400, 20)).read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(IsoscopeError):
        open_array(tmp_path / "cut.pt")
