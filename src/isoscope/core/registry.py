"""A registry finds what the files of a package declare: metrics, figures, families, sources, papers, claims.

A file may declare several objects, alone or in a list; each is registered under its own name. Folders named in the environment
variable `ISOSCOPE_PLUGINS` may hold `metrics/`, `figures/`, `families/`, `sources/`, `claims/` or `studies/` of their own, so that one can
be added without touching the installed package.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.text_table import align_table, html_table

T = TypeVar("T")


class Registry(Generic[T]):
    """The objects of one kind that the files of some packages declare, by name, in alphabetical order.

    Args:
        kind: the class of the objects. Each has a `name`.
        what: what an error message calls one of them.
        packages: dotted names. A `*` stands for every package in that place: `isoscope.studies.*.claims`. A name that does not exist is
            skipped if it has a `*`. Files of plugins belong to the first.

    Nothing is imported before the first look-up.
    """

    def __init__(self, kind: type[T] | tuple[type[T], ...], what: str, *packages: str) -> None:
        self.kind, self.what, self.packages = kind, what, packages
        self._entries: dict[str, T] | None = None

    def names(self) -> list[str]:
        """Every key."""
        return list(self._load())

    def __contains__(self, name: object) -> bool:
        return name in self._load()

    def __getitem__(self, name: str) -> T:
        entries = self._load()
        if name not in entries:
            known = list(entries)
            raise IsoscopeError(f"There is no {self.what} called {name!r}{nearest(name, known) or '; there are ' + ', '.join(known) + '.'}")
        return entries[name]

    def __iter__(self) -> Iterator[T]:
        return iter(self._load().values())

    def __len__(self) -> int:
        return len(self._load())

    def _rows(self) -> list[list[str]]:
        """The name and the first sentence of every entry."""
        return [[name, describe_entry(entry)] for name, entry in self._load().items()]

    def __repr__(self) -> str:
        return align_table([self.what, "meaning"], self._rows(), left=2)

    def _repr_html_(self) -> str:
        return html_table([self.what, "meaning"], self._rows(), left=2)

    def _load(self) -> dict[str, T]:
        # Built completely before it is stored, so that a file that raises leaves no half-filled registry behind.
        if self._entries is None:
            entries: dict[str, T] = {}
            for i, package in enumerate(self.packages):
                for module in modules_of(package, plugins=i == 0):
                    self._add_declarations(module, entries)
            self._entries = dict(sorted(entries.items()))
        return self._entries

    def _add_declarations(self, module: ModuleType, entries: dict[str, T]) -> None:
        values = vars(module).values()
        listed = [entry for value in values if isinstance(value, list) for entry in value]
        declared = [entry for entry in (*values, *listed) if isinstance(entry, self.kind)]
        if not declared:
            raise IsoscopeError(f"{module.__file__} must declare a {self.what}; it does not.")
        # A module may import what another declares: the same object under the same name is no conflict.
        for entry in declared:
            name = str(entry.name)  # type: ignore[attr-defined]
            if entries.setdefault(name, entry) is not entry:
                raise IsoscopeError(f"{module.__file__} declares a {self.what} called {name!r}, and there is one of that name already.")


def describe_entry(entry: object) -> str:
    """What an entry says of itself in one sentence: its summary, title or statement."""
    words = (getattr(entry, name, None) for name in ("summary", "title", "statement", "about", "accepts", "modality"))
    return next((text for text in words if isinstance(text, str) and text), "")


def modules_of(pattern: str, *, plugins: bool = True) -> Iterator[ModuleType]:
    """The modules of a package and of the plugin folders of the same name; a plain module stands for itself."""
    before, star, after = pattern.partition(".*.")
    if star:
        names = [f"{before}.{module.name}.{after}" for module in pkgutil.iter_modules(_search_path(before)) if module.ispkg]
        for i, name in enumerate([name for name in names if find_spec(name) is not None]):
            yield from modules_of(name, plugins=plugins and i == 0)  # a plugin's file must not be imported once for each of them
        return
    package = importlib.import_module(pattern)
    if not hasattr(package, "__path__"):
        yield package
        return
    for module in sorted(pkgutil.iter_modules(_search_path(pattern, plugins=plugins)), key=lambda module: module.name):
        if not module.name.startswith("_"):  # what the files of a package share
            yield importlib.import_module(f"{pattern}.{module.name}")


def _search_path(package: str, *, plugins: bool = True) -> list[str]:
    """The folders of a package, those of plugins included."""
    # The list of folders that Python itself searches: a plugin becomes a submodule of the package.
    path: list[str] = importlib.import_module(package).__path__  # type: ignore[assignment]
    folder = package.rpartition(".")[2]
    for root in filter(None, os.environ.get("ISOSCOPE_PLUGINS", "").split(os.pathsep)) if plugins else ():
        added = Path(root) / folder
        if added.is_dir() and str(added) not in path:
            path.append(str(added))
    return path
