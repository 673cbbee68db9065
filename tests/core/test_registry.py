"""A registry finds the objects that the files of packages and of plugin folders declare."""

import itertools
import sys
from dataclasses import dataclass

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.core.registry import Registry

FRUIT = "from tests.core.test_registry import Fruit\n"
numbers = itertools.count()


@dataclass
class Fruit:
    name: str


@pytest.fixture
def make_package(tmp_path, monkeypatch):
    """Write files into a package with a new name, which can be imported."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(files, name=None):
        name = name or f"orchard{next(numbers)}"
        for path, text in ({"__init__.py": ""} | files).items():
            target = tmp_path / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return name

    return make


def test_every_object_of_every_file_is_found_in_alphabetical_order(make_package):
    package = make_package(
        {"z.py": FRUIT + "fig = Fruit('fig')", "a.py": FRUIT + "pear, apple = Fruit('pear'), Fruit('apple')", "_shared.py": "broken ="}
    )
    fruits = Registry(Fruit, "fruit", package)
    assert fruits.names() == ["apple", "fig", "pear"]
    assert [fruit.name for fruit in fruits] == fruits.names()
    assert len(fruits) == 3
    assert fruits["pear"] is sys.modules[f"{package}.a"].pear
    assert "fig" in fruits
    assert "plum" not in fruits


def test_nothing_is_imported_before_the_first_look(make_package):
    package = make_package({"a.py": FRUIT + "fig = Fruit('fig')"})
    fruits = Registry(Fruit, "fruit", package)
    assert f"{package}.a" not in sys.modules
    assert fruits.names() == ["fig"]
    assert f"{package}.a" in sys.modules


def test_an_unknown_name_is_answered_with_the_nearest_or_all(make_package):
    fruits = Registry(Fruit, "fruit", make_package({"a.py": FRUIT + "a, b = Fruit('apple'), Fruit('banana')"}))
    with pytest.raises(IsoscopeError, match=r"^There is no fruit called 'aple', did you mean apple\?$"):
        fruits["aple"]
    with pytest.raises(IsoscopeError, match=r"^There is no fruit called 'xyz'; there are apple, banana\.$"):
        fruits["xyz"]


def test_a_file_without_a_declaration_is_refused(make_package):
    fruits = Registry(Fruit, "fruit", make_package({"a.py": "x = 1"}))
    with pytest.raises(IsoscopeError, match=r"a\.py must declare a fruit; it does not"):
        fruits.names()


def test_two_objects_of_one_name_are_refused_but_one_object_may_be_imported_twice(make_package):
    name = make_package({"a.py": FRUIT + "fig = Fruit('fig')"})
    make_package({"b.py": f"from {name}.a import fig"}, name)
    assert Registry(Fruit, "fruit", name).names() == ["fig"]
    clash = make_package({"a.py": FRUIT + "fig = Fruit('fig')", "b.py": FRUIT + "fig = Fruit('fig')"})
    with pytest.raises(IsoscopeError, match=r"b\.py declares a fruit called 'fig', and there is one of that name already"):
        Registry(Fruit, "fruit", clash).names()


def test_a_star_stands_for_every_package_that_has_the_module(make_package):
    package = make_package(
        {
            "north/__init__.py": "",
            "north/fruits.py": FRUIT + "fig = Fruit('fig')",
            "south/__init__.py": "",
            "south/fruits/__init__.py": "",
            "south/fruits/a.py": FRUIT + "date = Fruit('date')",
            "empty/__init__.py": "",
        }
    )
    assert Registry(Fruit, "fruit", f"{package}.*.fruits").names() == ["date", "fig"]


def test_plugin_folders_of_the_same_name_are_searched_too(make_package, tmp_path, monkeypatch):
    package = make_package({"a.py": FRUIT + "fig = Fruit('fig')"})
    folder = tmp_path / "plugins" / package
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(FRUIT + "plum = Fruit('plum')")
    monkeypatch.setenv("ISOSCOPE_PLUGINS", str(tmp_path / "plugins"))
    assert Registry(Fruit, "fruit", package).names() == ["fig", "plum"]
