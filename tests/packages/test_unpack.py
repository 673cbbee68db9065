"""Unpacking: wanted files only, and none outside the folder."""

import io
import tarfile

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.packages.catalogue import Archive, Part
from isoscope.packages.unpack import read_deb_data, unpack
from tests.packages.registry import write_wheel

ARCHIVE = Archive("npm", "tiny@1.0", "0" * 64, 1)


def tar_bytes(files):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return content.getvalue()


def write_deb(path, files):
    """An ar archive: a first member of odd length, which is padded, and the data."""
    members = {"debian-binary": b"2.0", "data.tar.gz": tar_bytes(files)}
    path.write_bytes(
        b"!<arch>\n"
        + b"".join(f"{name:16}{'':32}{len(raw):<10}`\n".encode() + raw + b"\n" * (len(raw) % 2) for name, raw in members.items())
    )


@pytest.mark.parametrize("ending", ["whl", "tgz", "deb"])
def test_only_wanted_files_are_written(tmp_path, ending):
    files = {"./tiny/a.json": "1", "./tiny/b/c.bin": "2", "./tiny/code.py": "3", "./other/d": "4"}
    archive = tmp_path / f"x.{ending}"
    if ending == "deb":
        write_deb(archive, files)
    elif ending == "tgz":
        archive.write_bytes(tar_bytes(files))
    else:
        archive = write_wheel(tmp_path, {name.removeprefix("./"): text for name, text in files.items()})
    unpack(Part(ARCHIVE, ("tiny/",), strip="tiny/"), archive, tmp_path / "to")
    written = {path.relative_to(tmp_path / "to").as_posix(): path.read_text() for path in (tmp_path / "to").rglob("*") if path.is_file()}
    assert written == {"a.json": "1", "b/c.bin": "2"}


def test_code_is_written_where_it_holds_data(tmp_path):
    wheel = write_wheel(tmp_path, {"tests/test_x.py": "REACTION = 'C>>C'"})
    unpack(Part(ARCHIVE, ("tests/",), code=True), wheel, tmp_path / "to")
    assert (tmp_path / "to" / "tests" / "test_x.py").read_text() == "REACTION = 'C>>C'"


@pytest.mark.parametrize("name", ["tiny/../../evil.txt", "/etc/evil"])
def test_a_path_out_of_the_folder_is_refused(tmp_path, name):
    wheel = write_wheel(tmp_path, {name: "evil"})
    with pytest.raises(IsoscopeError, match="leads out of its folder; it was not unpacked"):
        unpack(Part(ARCHIVE, ("tiny/", "/etc/")), wheel, tmp_path / "to")
    assert not (tmp_path / "evil.txt").exists()


def test_a_debian_package_without_files_is_refused(tmp_path):
    (tmp_path / "x.deb").write_bytes(b"!<arch>\n")
    with pytest.raises(IsoscopeError, match=r"x\.deb holds no files"):
        read_deb_data(tmp_path / "x.deb")
