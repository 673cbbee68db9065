"""A source of files is divided by ranges of bytes: the parts hold its items once, and together they read it once."""

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.core.source import part_of
from isoscope.sources import _file_parts, open_source, text
from isoscope.sources._file_parts import FileBytes, combine_blocks

DIVISIONS = (1, 2, 7, 40, 1000)
BLANK = ("", " ", "\t \t", "\u3000", "\xa0\u2003", "\x1c", "\r")


def pairs(source):
    return [(item.id, item.content) for item in source.items()]


def parts(source, k):
    return [item for i in range(k) for item in pairs(source.part(i, k))]


@pytest.fixture(params=[False, True], ids=["usual blocks", "small blocks"])
def blocks(request, monkeypatch):
    """Blocks so small that every item of these files is near the edge of one, and as they are."""
    if request.param:
        monkeypatch.setattr(_file_parts, "NUMBERED", 16)
        monkeypatch.setattr(_file_parts, "SMALLEST_BLOCK", 32)
        monkeypatch.setattr(_file_parts, "MOST_BLOCKS", 10)
        monkeypatch.setattr(text, "BACK", 3)


def made_lines(chance, count):
    """Lines of several alphabets between blank ones of every kind, with either line ending."""
    words = ["a", "née", "漢字", "🙂🙂", "x" * 30, "end."]
    for _ in range(count):
        line = " ".join(chance.choices(words, k=chance.randint(1, 6))) if chance.random() < 0.6 else chance.choice(BLANK)
        yield chance.choice(("", "", " ")) + line + chance.choice(("\n", "\n", "\r\n"))


def paragraphs_of(raw):
    """What the paragraphs of a text are, from the text as a whole."""
    found, lines = [], []
    for line in [*raw.decode("utf-8-sig").split("\n"), ""]:
        if line.strip():
            lines.append(line.rstrip("\r"))
        elif lines:
            found.append("\n".join(lines).strip())
            lines = []
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.usefixtures("blocks")
def test_paragraphs_are_divided_wherever_the_ranges_are_cut(tmp_path, seed):
    chance = random.Random(seed)
    raw = b"\xef\xbb\xbf" * (seed % 2) + "".join(made_lines(chance, 60)).encode()
    raw = raw.rstrip(b"\r\n") if seed % 3 else raw + b"\n\n  \r\n"  # also without a last line end, and with blank lines after it
    (tmp_path / "a.txt").write_bytes(raw)
    source = open_source(str(tmp_path / "a.txt"))
    whole = pairs(source)
    assert [content for _, content in whole] == paragraphs_of(raw)
    assert len({name for name, _ in whole}) == len(whole)
    for k in DIVISIONS:
        assert parts(source, k) == whole


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("blocks")
def test_lines_of_json_are_divided_wherever_the_ranges_are_cut(tmp_path, seed):
    chance = random.Random(seed)
    lines = []
    for i in range(50):
        lines.append(json.dumps({"body": chance.choice([f"née {i} 漢字", " ", None, "x" * i]), "n": i}, ensure_ascii=i % 2 == 0))
        lines += ["", " \r"][: chance.randint(0, 2)]
    lines[0] = json.dumps({"body": "the first line decides which field is read"})
    lines[-1] = json.dumps({"body": "the last", "title": "which alone has a title"})
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n" * (seed % 2), "utf-8", newline="")
    source = open_source(str(tmp_path / "a.jsonl"))
    whole = pairs(source)
    written = [row["body"] for line in lines if line.strip() and (row := json.loads(line))["body"] and row["body"].strip()]
    assert [content for _, content in whole] == written
    for k in DIVISIONS:
        assert parts(source, k) == whole


def test_row_groups_are_divided_and_rows_keep_their_numbers(tmp_path):
    texts = [f"row {i} " + "x" * (900 + i % 7) if i % 5 else None for i in range(90)]
    pd.DataFrame({"text": texts, "n": np.arange(90)}).to_parquet(
        tmp_path / "a.parquet", row_group_size=8, compression=None, write_statistics=False
    )
    source = open_source(str(tmp_path / "a.parquet"))
    whole = pairs(source)
    assert whole == [(f"a.parquet#{i}", value) for i, value in enumerate(texts) if value]
    for k in DIVISIONS:
        assert parts(source, k) == whole
    assert sum(bool(pairs(source.part(i, 4))) for i in range(4)) == 4, "every quarter of the bytes holds a row group"


def test_folders_are_divided_by_file_and_files_by_range(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.txt").write_text("one\n\ntwo")
    (tmp_path / "b.txt").write_text("")
    (tmp_path / "deep" / "c.jsonl").write_text("".join(json.dumps({"text": f"line {i}"}) + "\n" for i in range(20)))
    pd.DataFrame({"text": ["p0", "p1"]}).to_parquet(tmp_path / "d.parquet")
    (tmp_path / "z.txt").write_text("")
    source = open_source(str(tmp_path))
    whole = pairs(source)
    assert [name for name, _ in whole] == ["a.txt#0", "a.txt#1", "d.parquet#0", "d.parquet#1", *(f"deep/c.jsonl#{i}" for i in range(20))]
    for k in DIVISIONS:
        assert parts(source, k) == whole


def test_images_are_divided_by_file(tmp_path):
    from PIL import Image

    for i in range(9):
        Image.new("RGB", (8, 8 + 40 * i), (i, i, i)).save(tmp_path / f"{i}.bmp")
    source = open_source(str(tmp_path), modality="images")
    names = [item.id for item in source.items()]
    for k in DIVISIONS:
        assert [item.id for i in range(k) for item in source.part(i, k).items()] == names
    (tmp_path / "9.bmp").write_bytes(b"")
    damaged = open_source(str(tmp_path), modality="images")
    with pytest.raises(IsoscopeError, match=r"9\.bmp is not an image"):
        list(damaged.part(6, 7).items())


def test_the_embedded_text_keeps_its_ids_in_every_division():
    source = open_source("embedded")
    whole = pairs(source)
    assert parts(source, 7) == whole
    assert whole[0][0].count("/") == 1
    counts = [sum(1 for _ in source.part(i, 7).items()) for i in range(7)]
    assert sum(counts) == 990
    assert all(100 < count < 200 for count in counts), "documents of about equal length"


def test_the_number_of_an_item_needs_16_kib_before_it_and_no_more(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(f"{i:06d} " + "y" * 992 for i in range(200)))  # one starts every 1,001 bytes
    whole = pairs(open_source(str(path)))
    assert [whole[i][0] for i in (0, 16, 17, 32, 33)] == ["a.txt#0", "a.txt#16", "a.txt#1.0", "a.txt#1.15", "a.txt#2.0"]
    assert len({name for name, _ in whole}) == 200


@pytest.mark.usefixtures("blocks")
def test_the_fingerprint_of_a_source_is_that_of_its_parts(tmp_path):
    chance = random.Random(0)
    names = ["a", "b", "c"]
    for name, size in zip(names, (1000, 0, 77), strict=True):
        (tmp_path / name).write_bytes(chance.randbytes(size))
    files = [tmp_path / name for name in names]
    whole = FileBytes(files, names, "column text\n")
    for k in DIVISIONS:
        each = [FileBytes(files, names, "column text\n").blocks(i, k) for i in range(k)]
        blocks = {number: digest for part in each for number, digest in part.items()}
        assert combine_blocks(whole.layout, blocks) == whole.fingerprint
        assert all(blocks[number] == digest for part in each for number, digest in part.items()), "parts agree on what both touch"
    raw = bytearray(files[0].read_bytes())
    raw[500] ^= 1
    files[0].write_bytes(raw)
    changed = FileBytes(files, names, "column text\n")
    assert changed.layout == whole.layout
    assert changed.fingerprint != whole.fingerprint
    touched = [i for i in range(7) if changed.blocks(i, 7) != whole.blocks(i, 7)]
    assert touched
    assert 500 * 7 // 1077 in touched, "the part that holds the byte"
    assert FileBytes(files, ["a", "b", "d"]).layout != changed.layout != FileBytes(files, names).layout


def bytes_read():
    """The bytes that this process has asked of the system, from files of any kind."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


CORPUS = 1 << 22
TO_HASH, TO_NUMBER = 2 << 13, (1 << 14) + (1 << 15)
"""What a shard may read in addition: the rest of the blocks at its two ends, and the items that are numbered before its own."""


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the system does not count what a process reads")
@pytest.mark.parametrize("kind", ["txt", "jsonl", "parquet", "folder"])
def test_any_number_of_shards_reads_the_corpus_once(tmp_path, kind):
    """Counted by the system: once for the fingerprint, and once for the items."""
    chance = random.Random(0)
    texts = ["".join(chance.choices("abcdefgh ", k=chance.randint(300, 1700))) for _ in range(CORPUS // 1000)]
    if kind == "parquet":
        pd.DataFrame({"text": texts}).to_parquet(tmp_path / "a.parquet", row_group_size=50, compression=None, write_statistics=False)
    elif kind == "folder":
        for i in range(0, len(texts), 10):
            (tmp_path / f"{i:06d}.txt").write_text("\n\n".join(texts[i : i + 10]))
    else:
        separate, dump = ("\n\n", str) if kind == "txt" else ("\n", lambda value: json.dumps({"text": value}))
        (tmp_path / f"a.{kind}").write_text(separate.join(map(dump, texts)))
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size > 0.9 * CORPUS
    source = open_source(str(tmp_path))
    expected = pairs(source)
    in_addition = TO_NUMBER + (2 << 16) * (kind == "parquet")  # Arrow reads the last 64 KiB of a file for its footer, twice
    for k in (1, 7, 1000):
        opened = [open_source(str(tmp_path)) for _ in range(k)] if k < 1000 else [source] * k
        for other in opened:
            other.file_bytes._digests.clear()
        before = bytes_read()
        divided = []
        for i, other in enumerate(opened):
            divided += pairs(part_of(other, (i, k), limited=False) or other)
        items = bytes_read() - before
        for i, other in enumerate(opened):
            other.file_bytes._digests.clear()
            other.file_bytes.blocks(i, k)
        hashed = bytes_read() - before - items
        assert divided == expected
        assert size <= hashed <= 1.1 * size + k * TO_HASH
        assert 0.9 * size <= items <= 1.1 * size + k * in_addition


def test_a_line_longer_than_many_ranges_is_read_by_one_of_them(tmp_path):
    """All of text8 is one line: shards that begin within it see that from 4 KiB before them."""
    path = tmp_path / "a.txt"
    path.write_text("word " * 400_000)
    source = open_source(str(path))
    before = bytes_read()
    found = [pairs(source.part(i, 50)) for i in range(1, 50)]
    assert not any(found)
    assert bytes_read() - before < 1.1 * 2_000_000 + 49 * TO_NUMBER
    assert len(pairs(source.part(0, 50))[0][1]) == 1_999_999


def test_limits_and_other_sources_are_dealt_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one\n\ntwo")
    source = open_source(str(path))
    assert part_of(source, (0, 1), limited=False) is None
    assert part_of(source, (0, 2), limited=True) is None
    assert [item.content for item in part_of(source, (0, 2), limited=False).items()] == ["one"]
    shutil.copy(path, tmp_path / "b.txt")

    class Plain:
        name, modality, fingerprint = "plain", "text", "f"

        def items(self):
            yield from ()

    assert part_of(Plain(), (0, 2), limited=False) is None
