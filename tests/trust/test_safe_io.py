"""Files of strangers: no longer or deeper than their limits, and regular files only."""

import json
import os
from pathlib import Path

import pytest

from isoscope.trust.safe_io import open_regular, parse_json, parse_object, read_json, read_text, regular_size, to_strict_json


def test_json_within_its_limits_is_read(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": [1, "é"]}', "utf-8")
    size = len(path.read_bytes())
    assert read_json(path) == read_json(path, size) == read_json(path, follow=False) == {"a": [1, "é"]}
    with pytest.raises(ValueError, match=f"it has more than {size - 1:,} bytes"):
        read_json(path, size - 1)


def test_json_that_is_too_deep_is_a_value_error():
    with pytest.raises(ValueError, match="it is nested too deeply"):
        parse_json("[" * 100_000)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_json_in_every_encoding_that_the_standard_allows(encoding):
    assert parse_json('{"a": "é東"}'.encode(encoding)) == {"a": "é東"}


def test_half_a_character_becomes_the_replacement_character_and_a_whole_one_stays():
    assert parse_json(r'{"\ud800": ["\ud83d\ude42", "x\udc00"]}') == {"�": ["🙂", "x�"]}
    assert parse_json(r'"\\ud800"') == r"\ud800"  # six characters, and no escape


def test_only_objects_are_objects():
    assert parse_object('{"a": 1}') == {"a": 1}
    assert [parse_object(text) for text in ("[1]", "{", "", None, 3)] == [{}] * 5


def test_strict_json_has_null_for_what_is_no_number():
    value = {"a": [1.5, float("nan"), {"b": float("-inf")}], "c": "NaN"}
    assert json.loads(to_strict_json(value), parse_constant=pytest.fail) == {"a": [1.5, None, {"b": None}], "c": "NaN"}


def test_text_that_is_no_utf8_is_a_value_error(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a\xff")
    with pytest.raises(ValueError, match="invalid start byte"):
        read_text(tmp_path / "a.txt")


def test_a_device_is_read_up_to_the_limit():
    with pytest.raises(ValueError, match="it has more than 1,000 bytes"):
        read_text(Path("/dev/zero"), 1000)


def test_links_folders_and_pipes_are_not_opened(tmp_path):
    (tmp_path / "file").write_text("abc")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert regular_size(tmp_path / "file") == 3
    with open_regular(tmp_path / "file") as file:
        assert file.read() == b"abc"
    for name, what in (("link", "a link"), ("folder", "a folder"), ("pipe", "no regular file")):
        for read in (open_regular, regular_size):
            with pytest.raises(OSError, match=f"it is {what}, which is not followed"):
                read(tmp_path / name)
    assert read_text(tmp_path / "link") == "abc"  # outside a run, links are followed
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "nothing")
