"""Page headers are read as Arrow writes them, and a page that claims more than it can hold is refused before memory is taken."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.core.parquet import Header, check_pages, opened

TABLE = pa.table(
    {
        "text": [f"document {i} " * (i % 40) for i in range(5_000)],
        "same": ["equal"] * 5_000,
        "number": np.random.default_rng(0).standard_normal(5_000),
        "lists": [list(range(i % 7)) for i in range(5_000)],
        "nothing": pa.nulls(5_000, pa.int64()),
    }
)


def written(path, **options):
    pq.write_table(TABLE, path, row_group_size=2_000, data_page_size=4_096, **options)
    return path


def headers(path):
    """Every page of a file: its place, the bytes of its header, what it claims and what it takes."""
    raw = path.read_bytes()
    metadata = pq.ParquetFile(path).metadata
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            at = start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
            pages = []
            while at < start + chunk.total_compressed_size:
                header = Header(raw[at:])
                whole, stored = header.sizes()
                pages.append((at, header.at, whole, stored))
                at += header.at + stored
            yield chunk, pages


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"}, {"write_statistics": False}])
def test_pages_add_up_to_what_the_footer_says(tmp_path, compression, options):
    path = written(tmp_path / "a.parquet", compression=compression, **options)
    for chunk, pages in headers(path):
        assert sum(length + stored for _, length, _, stored in pages) == chunk.total_compressed_size
        assert sum(length + whole for _, length, whole, _ in pages) == chunk.total_uncompressed_size
    with opened(path) as file:
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
    _, pages = next(headers(path))
    at = pages[1][0]
    raw, metadata = path.read_bytes(), pq.ParquetFile(path).metadata
    header = b"\x15\x00\x15" + varint(whole) + b"\x15" + varint(stored) + b"\x00"
    path.write_bytes(raw[:at] + header + raw[at + len(header) :])  # all that follows, and the footer, stay where they are
    with pytest.raises(ValueError, match=said):
        check_pages(path, metadata)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"\x15\x00\x15" + b"\xff" * 12, "number without end"),
        (b"\x15\x00\x00", "does not say how large"),
        (b"\x1c" * 40, "nested too deeply"),
        (b"\x1d\x00", "type 13"),
        (b"\x1b\x80\x80\x80\x80\x08\x11" + b"\x00" * 8, None),
        (b"\x19\xf3\x80\x80\x80\x80\x08", None),
    ],
)
def test_garbled_headers_are_refused_at_once(raw, said):
    with pytest.raises(IndexError if said is None else ValueError, match=said):
        Header(raw).sizes()
