"""Files that numba compiles: there where it works, left out where it is missing or cannot work, and their own mistakes are not hidden."""

import math
import sys

import pytest
from scipy import stats

from isoscope.core.errors import IsoscopeWarning
from isoscope.core.numerics import _warn_once, load_compiled, margin, upper_quantile, upper_tail, widening

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


@pytest.mark.parametrize("freedom", [1, 4, 10.5, 1e6, math.inf])
def test_student_agrees_with_scipy(freedom):
    reference = stats.norm if math.isinf(freedom) else stats.t(freedom)
    assert upper_quantile(0.01, freedom) == pytest.approx(reference.isf(0.01), rel=1e-9)
    assert upper_tail(2.5, freedom) == pytest.approx(reference.sf(2.5), rel=1e-9)
    assert margin(0.3, freedom) == pytest.approx(0.3 * reference.isf(0.025), rel=1e-9)
    assert widening(7, freedom) == pytest.approx(reference.isf(0.025 / 7) / reference.isf(0.025), rel=1e-9)


def test_a_small_chance_keeps_its_digits():
    """1 − Φ(20) would be 0 in float64; the tail is 2.75e-89."""
    assert upper_tail(20.0) == pytest.approx(2.7536241186062337e-89, rel=1e-9)


def test_no_parts_need_no_widening():
    assert widening(0) == widening(1) == 1.0
