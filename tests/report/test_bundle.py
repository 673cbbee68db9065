"""What the page embeds cannot break out of it, and what is cached is whole."""

import base64
import gzip

import pytest

from isoscope.core.cache import cache_folder
from isoscope.report.bundle import pack, render_template, vega_script, write_at_once


def test_packed_text_holds_no_markup_and_is_the_same_each_time():
    text = "</script><!-- ü\u202e"
    packed = pack(text)
    assert set(packed).isdisjoint("<>&\"'")
    assert gzip.decompress(base64.b64decode(packed)).decode() == text
    assert pack(text) == packed


def test_names_in_a_template_are_escaped_and_cannot_turn_the_line():
    page = render_template("waiting.html.jinja", why="<b>net\u202egnp.exe</b>", state="waiting", failed=False)
    assert "&lt;b&gt;net\ufffdgnp.exe&lt;/b&gt;" in page
    assert "<b>net" not in page


def test_the_drawing_library_is_bundled_once(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOSCOPE_CACHE", str(tmp_path))
    vega_script.cache_clear()
    try:
        first = vega_script()
        (cached,) = cache_folder().iterdir()
        assert cached.read_text() == first
        assert "vegaEmbed" in gzip.decompress(base64.b64decode(first)).decode()
        vega_script.cache_clear()
        cached.write_text("from the cache")
        assert vega_script() == "from the cache"
    finally:
        vega_script.cache_clear()


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path, monkeypatch):
    (tmp_path / "isoscope").write_text("in the way")
    monkeypatch.setenv("ISOSCOPE_CACHE", str(tmp_path))
    vega_script.cache_clear()
    try:
        assert "vegaEmbed" in gzip.decompress(base64.b64decode(vega_script())).decode()
    finally:
        vega_script.cache_clear()


def test_a_file_is_replaced_in_one_step(tmp_path):
    write_at_once("old", tmp_path / "new folder" / "file")
    write_at_once("new", tmp_path / "new folder" / "file")
    assert [(path.name, path.read_text()) for path in (tmp_path / "new folder").iterdir()] == [("file", "new")]
    with pytest.raises(UnicodeEncodeError):
        write_at_once("ü", tmp_path / "other")
    assert not (tmp_path / "other").exists()
