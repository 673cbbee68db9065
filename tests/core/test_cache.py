"""Where the cache lies."""

from pathlib import Path

from isoscope.core.cache import cache_folder


def test_the_own_variable_comes_before_that_of_the_desktop_and_the_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("ISOSCOPE_CACHE", "~/own")
    assert cache_folder() == tmp_path / "home" / "own"
    monkeypatch.delenv("ISOSCOPE_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "isoscope"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path(tmp_path / "home" / ".cache" / "isoscope")
