"""What is installed: the package with its checkpoints, in less than 25 MB."""

import io
import tomllib
import zipfile
from pathlib import Path

SOURCE = Path(__file__).parents[1]
MOST = 25_000_000


def test_the_wheel_holds_the_checkpoints_and_stays_small():
    """A wheel is an archive of the package's files, compressed as here."""
    settings = tomllib.loads((SOURCE / "pyproject.toml").read_text("utf-8"))
    (package,) = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    files = [path for path in (SOURCE / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in files:
            wheel.write(path, path.relative_to(SOURCE))
    assert sum(path.name == "model.safetensors" for path in files) == 24
    assert len(archive.getvalue()) < MOST


def test_readme_and_documentation_begin_with_the_install_line():
    for page in ("README.md", "docs/index.md", "docs/how-to/check-and-repair-embeddings.md"):
        code = [line for line in (SOURCE / page).read_text("utf-8").splitlines() if line.startswith("    ")]
        assert code[0].strip() == "pip install 'isoscope[all]'", page


def test_every_extra_is_documented():
    settings = tomllib.loads((SOURCE / "pyproject.toml").read_text("utf-8"))
    page = (SOURCE / "docs/python.md").read_text("utf-8").partition("### Extras")[2].partition("## A matrix")[0]
    for extra in settings["project"]["optional-dependencies"]:
        assert extra == "dev" or f"`{extra}`" in page, extra
