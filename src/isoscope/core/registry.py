"""One file, one thing: a registry finds what a package's files declare.

A file `mean_cosine.py` in `isoscope/metrics/` declares an object `mean_cosine`; its name is its key. Folders named in the
environment variable `ISOSCOPE_PLUGINS` may hold `metrics/`, `figures/`, `families/`, `sources/`, `papers/` or `claims/` of their own, so
that one can be added without touching the installed package.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar, cast

from isoscope.core.errors import IsoscopeError, nearest

T = TypeVar("T")


@lru_cache
def _modules(folders: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the files in these folders, looked for once."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(folders)))


class Registry(Generic[T]):
    """What the files of one package declare, by name, in alphabetical order; files are imported when first asked for."""

    def __init__(self, package: ModuleType, what: str, kind: type[T] | tuple[type, ...]) -> None:
        self.package, self.what, self.kind = package, what, kind
        folder = package.__name__.rpartition(".")[2]
        for root in filter(None, os.environ.get("ISOSCOPE_PLUGINS", "").split(os.pathsep)):
            if (Path(root) / folder).is_dir() and str(Path(root) / folder) not in package.__path__:
                package.__path__.append(str(Path(root) / folder))

    def names(self) -> list[str]:
        """Every key, without importing anything."""
        return list(_modules(tuple(self.package.__path__)))

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __getitem__(self, name: str) -> T:
        if name not in self.names():
            known = self.names()
            raise IsoscopeError(f"There is no {self.what} called {name!r}{nearest(name, known) or '; there are ' + ', '.join(known) + '.'}")
        module = importlib.import_module(f"{self.package.__name__}.{name}")
        entry = getattr(module, name, None)
        if not isinstance(entry, self.kind):
            raise IsoscopeError(f"{module.__file__} must declare a {self.what} called {name!r}; it does not.")
        return cast(T, entry)

    def __iter__(self) -> Iterator[T]:
        return (self[name] for name in self.names())
