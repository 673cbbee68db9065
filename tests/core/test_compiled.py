"""Files that numba compiles are there where it is, and missing without a word where it is not."""

import pytest

from isoscope.core.compiled import compiled

FILES = ("isoscope.statistics.kernel_fused", "isoscope.statistics.neighbours_fused", "isoscope.models.attention_fused")


@pytest.mark.parametrize("name", FILES)
def test_with_numba_every_one_is_there(name):
    found = compiled(name)
    assert found.__name__ == name
    assert compiled(name) is found


@pytest.mark.parametrize(
    ("program", "there"),
    [("import no_such_package", False), ("raise RuntimeError('no locator available')", False), ("fused = 3", True)],
    ids=["no numba", "no folder for what it compiled", "there"],
)
def test_without_what_it_needs_there_is_none(program, there, tmp_path, monkeypatch):
    name = f"fused_{abs(hash(program))}"
    (tmp_path / f"{name}.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    assert (compiled(name) is not None) is there


def test_a_mistake_in_the_file_is_not_hidden(tmp_path, monkeypatch):
    (tmp_path / "fused_wrong.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ZeroDivisionError):
        compiled("fused_wrong")
