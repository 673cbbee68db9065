"""Files of a source are found in one order, named relative to their shared folder, and hashed by name, size and bytes."""

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.sources._file_parts import FileBytes
from isoscope.sources._item_files import find_files, match_files, relative_names, short_name


@pytest.fixture
def corpus(tmp_path):
    for name in ("b/2.txt", "a/1.txt", "a/clip.wav", "a/.hidden.txt", "notes.md"):
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "corpus"


def names(files, folder):
    return [file.relative_to(folder).as_posix() for file in files]


def test_in_a_folder_only_the_wanted_modality_is_meant(corpus):
    assert names(find_files(str(corpus), "text", "text"), corpus) == ["a/1.txt", "b/2.txt"]
    assert names(find_files(str(corpus), "speech", "speech"), corpus) == ["a/clip.wav"]
    assert find_files(str(corpus), "speech", "text") == []


def test_a_file_is_what_its_ending_says_whatever_is_wanted(corpus):
    assert names(find_files(str(corpus / "a/clip.wav"), "speech", "text"), corpus) == ["a/clip.wav"]
    assert find_files(str(corpus / "a/clip.wav"), "text", "text") == []
    assert find_files(str(corpus / "notes.md"), "text", "text") == []


def test_a_pattern_of_one_modality_needs_no_hint_and_one_of_several_takes_the_wanted(corpus):
    assert names(find_files(f"{corpus}/**/*.wav", "speech", "text"), corpus) == ["a/clip.wav"]
    assert names(find_files(f"{corpus}/a/*", "text", "text"), corpus) == ["a/1.txt"]
    assert names(find_files(f"{corpus}/a/*", "speech", "speech"), corpus) == ["a/clip.wav"]
    with pytest.raises(IsoscopeError, match=r"also matches .*notes\.md, not a \.txt, \.jsonl or \.parquet file; narrow it, as in \*\*/"):
        find_files(f"{corpus}/**/*", "text", "text")


def test_hidden_files_are_left_out_and_the_rest_is_sorted(corpus):
    assert names(match_files(f"{corpus}/**/*"), corpus) == ["a/1.txt", "a/clip.wav", "b/2.txt", "notes.md"]


def test_names_do_not_depend_on_where_a_corpus_lies(corpus):
    files = [corpus / "a/1.txt", corpus / "b/2.txt"]
    assert relative_names(files) == ["a/1.txt", "b/2.txt"]
    assert relative_names(files[:1]) == ["1.txt"]
    moved = corpus.rename(corpus.with_name("elsewhere"))
    assert relative_names([moved / "a/1.txt", moved / "b/2.txt"]) == ["a/1.txt", "b/2.txt"]


def test_a_hash_follows_names_order_bytes_preface_and_where_files_end(tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"

    def hashed(*contents, labels=("1", "2"), preface=""):
        first.write_bytes(contents[0])
        second.write_bytes(contents[1])
        return FileBytes([first, second], labels, preface).fingerprint

    same = hashed(b"ab", b"c")
    assert hashed(b"ab", b"c") == same
    others = {
        hashed(b"a", b"bc"),
        hashed(b"c", b"ab"),
        hashed(b"ab", b"c", labels=("1", "3")),
        hashed(b"ab", b"c", preface="column text\n"),
    }
    assert len(others - {same}) == 4


def test_short_names(corpus):
    assert short_name(str(corpus)) == "corpus"
    assert short_name(f"{corpus}/a/1.txt") == "1.txt"
    assert short_name(f"{corpus}/*/1.txt") == "*/1.txt"
