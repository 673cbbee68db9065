"""Text sources: what an item is, its id, the fingerprint, and a sentence for every mistake."""

import hashlib
import io
import json
import tracemalloc
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.sources import open_source


def pairs(source):
    return [(item.id, item.content) for item in source.items()]


def write_parquet(path, **columns):
    pq.write_table(pa.table(columns), path)


def test_paragraphs_with_byte_order_mark_and_both_line_ends(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf\r\n  One\r\ntwo  \r\n \t\r\n\r\n\nThree\xc3\xa9\n\n\n")
    source = open_source(str(tmp_path / "a.txt"))
    assert source.name == "a.txt"
    assert source.modality == "text"
    assert pairs(source) == [("a.txt#0", "One\ntwo"), ("a.txt#1", "Threeé")]
    assert pairs(source) == pairs(source)


def test_empty_rows_are_skipped_but_counted_in_ids(tmp_path):
    rows = [{"text": "one", "n": 1}, {"text": " "}, {"text": None}, {"text": "four"}]
    (tmp_path / "a.jsonl").write_text("\n\n".join(map(json.dumps, rows)))
    write_parquet(tmp_path / "a.parquet", text=[row["text"] for row in rows], n=[1, 2, 3, 4])
    assert pairs(open_source(str(tmp_path / "a.jsonl"))) == [("a.jsonl#0", "one"), ("a.jsonl#3", "four")]
    assert pairs(open_source(str(tmp_path / "a.parquet"))) == [("a.parquet#0", "one"), ("a.parquet#3", "four")]


def test_half_a_character_of_json_is_read_as_unreadable(tmp_path):
    """Scraped corpora have texts that were cut within an emoji; no tokenizer takes them as they are."""
    (tmp_path / "a.jsonl").write_text(r'{"text": "cut \ud83d"}' + "\n" + r'{"text": "whole \ud83d\ude42"}')
    assert pairs(open_source(str(tmp_path / "a.jsonl"))) == [("a.jsonl#0", "cut \ufffd"), ("a.jsonl#1", "whole 🙂")]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_column_is_chosen_or_refused_with_the_columns(tmp_path, suffix):
    def write(**columns):
        path = tmp_path / f"a.{suffix}"
        if suffix == "parquet":
            write_parquet(path, **columns)
        else:
            path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in zip(*columns.values(), strict=True)))
        return str(path)

    path = write(body=["b0", "b1"], n=[1, 2])
    assert [text for _, text in pairs(open_source(path))] == ["b0", "b1"]  # the only column of strings
    path = write(body=["b0", "b1"], text=["t0", "t1"])
    assert [text for _, text in pairs(open_source(path))] == ["t0", "t1"]
    assert [text for _, text in pairs(open_source(path, "body"))] == ["b0", "b1"]
    with pytest.raises(
        IsoscopeError, match=r"has no column 'bod', did you mean body; its columns are body, text: choose one with --column"
    ):
        open_source(path, "bod")
    with pytest.raises(IsoscopeError, match=r"has no column 'text'; its columns are one, two: choose one"):
        open_source(write(one=["x"], two=["y"]))
    with pytest.raises(IsoscopeError, match=r"'n' must (be a|hold) string"):
        open_source(write(text=["x"], n=[1]), "n")


def test_a_folder_mixes_formats_in_the_order_of_names(tmp_path):
    (tmp_path / "b" / "deep").mkdir(parents=True)
    (tmp_path / "b" / "deep" / "z.TXT").write_text("z")
    (tmp_path / "c.jsonl").write_text('{"text": "c"}\n')
    write_parquet(tmp_path / "a.parquet", text=["a"])
    (tmp_path / "readme.md").write_text("not read")
    (tmp_path / ".hidden.txt").write_text("not read")
    expected = [("a.parquet#0", "a"), ("b/deep/z.TXT#0", "z"), ("c.jsonl#0", "c")]
    assert pairs(open_source(str(tmp_path))) == expected
    assert [item.id for item in open_source(str(tmp_path / "**" / "*.[Tt][Xx][Tt]")).items()] == ["z.TXT#0"]
    assert open_source(str(tmp_path / "**" / "*.jsonl")).name == "**/*.jsonl"


def test_a_pattern_must_not_silently_leave_files_out(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.md").write_text("b")
    with pytest.raises(IsoscopeError, match=r"also matches .*b\.md, not a \.txt, \.jsonl or \.parquet file; narrow it"):
        open_source(str(tmp_path / "*"))


def test_the_fingerprint_is_of_the_content_wherever_it_lies(tmp_path):
    prints = []
    for folder in ("here", "there/deeper"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.jsonl").write_text('{"text": "a", "other": "b"}\n')
        (tmp_path / folder / "b.txt").write_text("b")
        prints.append(open_source(str(tmp_path / folder)).fingerprint)
    assert prints[0] == prints[1]
    assert open_source(str(tmp_path / "here"), "text").fingerprint == prints[0]
    assert open_source(str(tmp_path / "here"), "other").fingerprint != prints[0]
    (tmp_path / "here" / "b.txt").write_text("c")
    assert open_source(str(tmp_path / "here")).fingerprint != prints[0]
    (tmp_path / "x.txt").write_text("same")
    layout = hashlib.sha256(b"x.txt 4\n").hexdigest()
    one = hashlib.sha256(f"{layout}\n0 {hashlib.sha256(b'same').hexdigest()}\n".encode()).hexdigest()
    assert open_source(str(tmp_path / "x.txt")).fingerprint == open_source(str(tmp_path / "x.txt"), "ignored").fingerprint == one
    (tmp_path / "y.txt").write_text("same")  # its items have other ids, so that other tokens are sampled
    assert open_source(str(tmp_path / "y.txt")).fingerprint != one


def test_standard_input_can_be_read_twice(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("Ein Äpfel\n\nzwei\n".encode())))
    source = open_source("-")
    assert pairs(source) == pairs(source) == [("stdin#0", "Ein Äpfel"), ("stdin#1", "zwei")]
    assert len(source.fingerprint) == 64
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    with pytest.raises(IsoscopeError, match=r"^Standard input is not UTF-8: byte 0xff at offset 0"):
        open_source("-")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(IsoscopeError, match=r"^stdin holds no text"):
        open_source("-")


def test_memory_holds_a_part_of_a_file(tmp_path):
    with (tmp_path / "big.txt").open("w") as file:
        for i in range(40_000):
            file.write(f"Paragraph {i} " + "x" * 200 + "\n\n")
    tracemalloc.start()
    source = open_source(str(tmp_path / "big.txt"))
    assert sum(1 for _ in source.items()) == 40_000
    assert source.fingerprint
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20 < (tmp_path / "big.txt").stat().st_size


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.txt", b"", r"a\.txt holds no text: it is empty or has only white space"),
        ("a.jsonl", b"\n \n", r"a\.jsonl holds no text"),
        ("a.txt", b"abc\n\xef\xbb\xbf de \xe9 f", r"a\.txt is not UTF-8: byte 0xe9 at offset 11 cannot be decoded; convert it to UTF-8"),
        ("a.txt", b"\xef\xbb\xbfab\xe9", r"at offset 5 cannot"),
        ("a.jsonl", b'{"text": "a"}\n\n{"text": \n', r"a\.jsonl, line 3 is not JSON .*; each line must be one complete object"),
        ("a.jsonl", b"[1, 2]\n", r"a\.jsonl, line 1 must be a JSON object with a text field; it is a list"),
        ("a.jsonl", b'{"text": "a"}\n{"body": "b"}\n', r"line 2 has no column 'text'; its columns are body"),
        ("a.parquet", b"PAR1 but not really", r"a\.parquet is not a readable Parquet file, or is damaged \(.*\); write it again"),
        ("a.parquet", b"", r"a\.parquet is not a readable Parquet file"),
    ],
)
def test_damaged_or_unsuitable_files_are_refused_in_one_sentence(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(IsoscopeError, match=sentence):
        list(open_source(str(tmp_path / name)).items())


def test_the_embedded_corpus():
    source = open_source("embedded")
    documents = pairs(source)
    texts = [text for _, text in documents]
    assert len(documents) >= 600
    assert len({name for name, _ in documents}) == len(set(texts)) == len(documents)
    assert all(300 <= len(text) <= 2600 and text == text.strip() for text in texts)
    assert not any(mark in text for text in texts for mark in ("Gutenberg", "http", "###", "{", "}", "\ufffd", "[^", "||"))
    sonnet = dict(documents)["sonnets/0018"]
    assert sonnet.startswith("Shall I compare thee to a summer's day?\n")
    assert len(sonnet.splitlines()) == 14


def test_a_prefix_of_the_embedded_corpus_is_a_fair_mixture():
    works = [name.partition("/")[0] for name, _ in pairs(open_source("embedded"))]
    whole, prefix = Counter(works), Counter(works[:100])
    assert len(whole) >= 4
    for work, count in whole.items():
        assert abs(prefix[work] - 100 * count / len(works)) <= 1
