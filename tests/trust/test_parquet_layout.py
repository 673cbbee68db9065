"""Page headers are read as Arrow writes them, and a page that claims more than it can hold is refused before memory is taken."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.trust.parquet_layout import Thrift, check_pages, open_checked_parquet, read_chunks

TABLE = pa.table(
    {
        "text": [f"document {i} " * (i % 40) for i in range(5_000)],
        "same": ["equal"] * 5_000,
        "number": np.random.default_rng(0).standard_normal(5_000),
        "lists": [list(range(i % 7)) for i in range(5_000)],
        "nothing": pa.nulls(5_000, pa.int64()),
    }
)


READ_ALL = """
import sys
from pathlib import Path
import pyarrow as pa
from isoscope.trust.parquet_layout import open_checked_parquet
pa.set_memory_pool(pa.system_memory_pool())
counts = [0, 0]
for path in sorted(Path(sys.argv[1]).iterdir()):
    print(path.name, file=sys.stderr, flush=True)
    try:
        with open_checked_parquet(path) as file:
            file.read(use_threads=False)
        counts[0] += 1
    except (ValueError, OSError, NotImplementedError, MemoryError, pa.ArrowException):
        counts[1] += 1
print(*counts)
"""


def written(path, **options):
    pq.write_table(TABLE, path, row_group_size=2_000, data_page_size=4_096, **options)
    return path


def pages(path, chunk):
    """Every page of a chunk: its place, the bytes of its header, what it claims and what it takes."""
    raw, at = path.read_bytes(), chunk.at
    while at < chunk.at + chunk.size:
        header = Thrift(raw[at:])
        said = header.read_struct()
        yield at, header.at, said[2], said[3]
        at += header.at + said[3]


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"}, {"write_statistics": False}])
def test_pages_add_up_to_what_the_footer_says(tmp_path, compression, options):
    path = written(tmp_path / "a.parquet", compression=compression, **options)
    metadata = pq.ParquetFile(path).metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    expected = [(group.column(i), group.num_rows) for group in groups for i in range(group.num_columns)]
    for chunk, (said, rows) in zip(read_chunks(path), expected, strict=True):
        own = list(pages(path, chunk))
        assert sum(length + stored for _, length, _, stored in own) == said.total_compressed_size
        assert sum(length + whole for _, length, whole, _ in own) == said.total_uncompressed_size
        assert (chunk.column, chunk.values, chunk.rows) == (said.path_in_schema.partition(".")[0], said.num_values, rows)
    with open_checked_parquet(path) as file:
        assert file.read().equals(TABLE)


def varint(number):
    number = number << 1
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


@pytest.mark.parametrize(
    ("whole", "stored", "said"),
    [
        ((1 << 31) - 1, 1, "a page of 1 bytes claims 2,147,483,647"),
        (9, (1 << 31) - 1, "a page of 2,147,483,647 bytes ends beyond its column"),
    ],
)
def test_a_page_that_claims_two_gigabytes_is_refused(tmp_path, whole, stored, said):
    path = written(tmp_path / "a.parquet", compression="none", use_dictionary=False)
    at = list(pages(path, read_chunks(path)[0]))[1][0]
    raw = path.read_bytes()
    header = b"\x15\x00\x15" + varint(whole) + b"\x15" + varint(stored) + b"\x00"
    path.write_bytes(raw[:at] + header + raw[at + len(header) :])  # all that follows, and the footer, stay where they are
    with pytest.raises(ValueError, match=said):
        check_pages(path)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"\x15\x00\x15" + b"\xff" * 12, "number without end"),
        (b"\x1c" * 40, "nested too deeply"),
        (b"\x1d\x00", "type 13"),
        (b"\x18\xff\xff\xff\xff\x07a", None),
        (b"\x19\xf3\x80\x80\x80\x80\x08", None),
        (b"\x15\x00", None),
    ],
)
def test_garbled_structs_are_refused_at_once(raw, said):
    with pytest.raises(IndexError if said is None else ValueError, match=said):
        Thrift(raw).read_struct()


@pytest.mark.parametrize(
    "footer",
    [
        {},
        {4: 7},
        {4: [7]},
        {4: [{3: 1}]},
        {4: [{1: 7, 3: 1}]},
        {4: [{1: [7], 3: 1}]},
        {4: [{1: [{3: 7}], 3: 1}]},
        {4: [{1: [{3: {9: True, 7: 1, 5: 1, 3: [b"x"]}}], 3: 1}]},
        {4: [{1: [{3: {9: 4, 7: -1, 5: 1, 3: [b"x"]}}], 3: 1}]},
        {4: [{1: [{3: {9: 4, 7: 1, 5: 1, 3: [7]}}], 3: 1}]},
        {4: [{1: [{3: {9: 4, 7: 1, 5: 1, 3: []}}], 3: 1}]},
        {4: [{1: [{3: {9: 4, 11: b"", 7: 1, 5: 1, 3: [b"x"]}}], 3: 1}]},
    ],
)
def test_a_footer_with_fields_of_other_types_is_refused_without_an_error_of_ours(tmp_path, monkeypatch, footer):
    """A garbled byte may turn a list into a number. The reader checks for that; it does not stumble over it."""
    path = tmp_path / "table.parquet"
    pq.write_table(TABLE.slice(0, 10), path)
    monkeypatch.setattr(Thrift, "read_struct", lambda self, depth=0: footer)
    with pytest.raises(ValueError, match="its footer is damaged") as raised:
        read_chunks(path)
    assert raised.value.__cause__ is None


def test_a_garbled_footer_is_refused_and_ends_no_process(tmp_path):
    """Statistics of sizes that do not fit the column's type: pyarrow aborts where it is asked for that column."""
    path = written(tmp_path / "a.parquet")
    raw = path.read_bytes()
    length = int.from_bytes(raw[-8:-4], "little")
    spoilt = tmp_path / "spoilt"
    spoilt.mkdir()
    for at in range(len(raw) - 8 - length, len(raw) - 8, 3):
        (spoilt / f"{at}.parquet").write_bytes(raw[:at] + bytes([raw[at] ^ 0x41]) + raw[at + 1 :])
    found = subprocess.run([sys.executable, "-c", READ_ALL, spoilt], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-500:]
    read, refused = map(int, found.stdout.split())
    assert read + refused == len(list(spoilt.iterdir()))
    assert refused > 100
    path.write_bytes(raw[:-8] + b"\xff\xff\xff\x7fPAR1")
    with pytest.raises(ValueError, match="no footer that can be read"):
        read_chunks(path)
