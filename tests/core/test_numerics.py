"""Files that numba compiles: there where it works, left out where it is missing or cannot work, and their own mistakes are not hidden."""

import sys

import pytest

from isoscope.core.errors import IsoscopeWarning
from isoscope.core.numerics import _warn_once, load_compiled

FILES = ("isoscope.statistics.kernel_fused", "isoscope.estimation.neighbours_fused", "isoscope.models.tapping.attention_fused")


@pytest.fixture
def made(tmp_path, monkeypatch):
    """`made("name", text)`: a module that can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    _warn_once.cache_clear()
    return lambda name, text: (tmp_path / f"{name}.py").write_text(text) and name


@pytest.mark.parametrize("name", FILES)
def test_with_numba_every_one_is_there(name):
    found = load_compiled(name)
    assert found.__name__ == name
    assert load_compiled(name) is found


def test_without_numba_there_is_none(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    assert load_compiled(made("fused_unused", "fused = 3")) is None


def test_a_numba_that_does_not_start_is_warned_of_once(made, monkeypatch):
    monkeypatch.delitem(sys.modules, "numba")
    made("numba", "raise ImportError('Numba needs NumPy 2.2 or less')")
    with pytest.warns(IsoscopeWarning, match=r"numba cannot be used here \(Numba needs NumPy 2.2 or less\)"):
        assert load_compiled(made("fused_first", "fused = 3")) is None
    assert load_compiled(made("fused_second", "fused = 3")) is None  # warnings are errors here


def test_no_folder_for_what_it_compiles_is_warned_of(made):
    with pytest.warns(IsoscopeWarning, match="numba cannot be used here"):
        assert load_compiled(made("fused_homeless", "raise RuntimeError(\"cannot cache function 'f': no locator available\")")) is None


@pytest.mark.parametrize("mistake", ["1 / 0", "import no_such_package", "raise RuntimeError('a mistake of ours')"])
def test_a_mistake_in_the_file_is_not_hidden(made, mistake):
    with pytest.raises((ZeroDivisionError, ImportError, RuntimeError)):
        load_compiled(made(f"fused_wrong_{len(mistake)}", mistake))
