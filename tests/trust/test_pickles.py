"""Archives of weights: torch must open the directory that was checked, and no other."""

import io
import struct
import zipfile

import pytest
import torch

from isoscope.core.errors import IsoscopeError
from isoscope.models.loading.weights import unpickle
from isoscope.trust.pickles import check_archive, is_archive
from tests.hostile.confined import confined

UNFOLDED = 1 << 30


@pytest.fixture
def bomb(tmp_path):
    """A checkpoint whose pickle is followed by a gigabyte of zeros, all deflated to a thousandth."""
    small = io.BytesIO()
    torch.save({"weight": torch.zeros(1)}, small)
    with zipfile.ZipFile(small) as old:
        members = {info.filename: old.read(info) for info in old.infolist()}
    path = tmp_path / "bomb.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(content)
                if name.endswith("data.pkl"):
                    for _ in range(UNFOLDED >> 20):
                        member.write(bytes(1 << 20))
    return path


def add_comment(path, comment):
    content = path.read_bytes()
    assert content[-2:] == b"\0\0"
    path.write_bytes(content[:-2] + struct.pack("<H", len(comment)) + comment)


@pytest.mark.parametrize(
    "comment",
    [b"PK\5\6", b"written by hand", b"PK\5\6" + bytes(18), b"x" * 40 + b"PK\5\6" + b"\0" * 17],
    ids=["a signature", "words", "another end", "half an end"],
)
def test_an_archive_with_a_comment_is_refused_before_it_is_unfolded(bomb, comment):
    """`zipfile` takes a file whose comment ends in a signature for no archive at all; torch opens it, and would unfold a gigabyte."""
    add_comment(bomb, comment)
    assert is_archive(bomb)
    call = f"unpickle(Path({str(bomb)!r}))"
    said = confined(call, setup="import torch; from isoscope.models.loading.weights import unpickle", megabytes=300)
    assert said == [f"{bomb} is an archive that torch.save did not write, and was not opened. Ask for safetensors."]


def splice(path, change):
    """Write an archive of torch.save again, with its three last records changed by `change(end64, locator, end)`."""
    content = bytearray(path.read_bytes())
    end64, locator, end = content[-98:-42], content[-42:-22], content[-22:]
    assert (end64[:4], locator[:4], end[:4]) == (b"PK\6\6", b"PK\6\7", b"PK\5\6")
    path.write_bytes(content[:-98] + change(end64, locator, end))


@pytest.mark.parametrize(
    "change",
    [
        lambda end64, locator, end: end64 + end64 + locator + end,
        lambda end64, locator, end: end64 + locator[:8] + struct.pack("<Q", 0) + locator[16:] + end,
        lambda end64, locator, end: end64[:48] + struct.pack("<Q", 0) + locator + end,
        lambda end64, locator, end: b"gap" + end,
        lambda end64, locator, end: b"",
    ],
    ids=["two long forms", "a long form elsewhere", "a directory elsewhere", "a gap", "no end"],
)
def test_an_archive_in_which_readers_could_differ_is_refused(tmp_path, change):
    path = tmp_path / "weights.pt"
    torch.save({"weight": torch.arange(12.0)}, path)
    splice(path, change)
    with pytest.raises(IsoscopeError, match=r"is an archive that torch.save did not write"):
        check_archive(path)


def test_archives_that_torch_writes_are_opened(tmp_path):
    torch.save({"weight": torch.arange(12.0)}, tmp_path / "new.pt")
    torch.save({"weight": torch.arange(12.0)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for name in ("new.pt", "old.pt"):
        assert torch.equal(unpickle(tmp_path / name)["weight"], torch.arange(12.0))
    assert is_archive(tmp_path / "new.pt")
    assert not is_archive(tmp_path / "old.pt")
