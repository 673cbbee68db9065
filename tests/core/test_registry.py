"""A registry finds what the files of a package declare."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.core.registry import Registry

Thing = PurePosixPath
"""Any class whose objects have a `name`."""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty package called `things`."""
    folder = tmp_path / "things"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("ISOSCOPE_PLUGINS", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "things"]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def declare(package: Path, name: str, body: str) -> None:
    (package / name).write_text(f"from pathlib import PurePosixPath as Thing\n{body}\n")


def test_a_file_declares_objects_alone_and_in_a_list(package: Path) -> None:
    declare(package, "one.py", "b = Thing('b')\nmore = [b, Thing('a')]\nnumbers = [1, 2]")
    declare(package, "_shared.py", "ignored = Thing('ignored')")
    assert Registry(Thing, "thing", "things").names() == ["a", "b"]


def test_a_file_without_a_declaration_is_refused(package: Path) -> None:
    declare(package, "one.py", "")
    with pytest.raises(IsoscopeError, match=r"one\.py must declare a thing"):
        Registry(Thing, "thing", "things").names()


def test_two_objects_of_one_name_are_refused(package: Path) -> None:
    declare(package, "one.py", "a = Thing('a')")
    declare(package, "two.py", "b = [Thing('a')]")
    with pytest.raises(IsoscopeError, match="called 'a', and there is one of that name already"):
        Registry(Thing, "thing", "things").names()
