"""A folder in which measurements are carried out, the commands that were run there, and the runs that measurements share."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.golden.names import import_main
from tests.golden.renames import rename_command, rename_flag, rename_option, rename_value


@dataclass
class Workshop:
    """Runs commands and remembers which verbs and options they touched."""

    folder: Path
    touched: set[str] = field(default_factory=set)
    shared: dict[str, tuple[Path, set[str]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def at(self, name: str) -> Path:
        """A path in the folder; nothing is made."""
        return self.folder / name

    def share(self, make: Callable[[Workshop], Path]) -> Path:
        """What `make` makes, made once and known by its name; whoever uses it touches what it touched."""
        name = make.__name__
        if name not in self.shared:
            inner = Workshop(self.folder, shared=self.shared)
            self.shared[name] = make(inner), inner.touched
        path, touched = self.shared[name]
        self.touched |= touched
        return path

    def options(self, verb: str, **given: Any) -> dict[str, Any]:
        """Options as Python takes them, noted as touched."""
        self.touched |= {f"{rename_command(verb)} {rename_flag(verb, name)}" for name in given}
        return {rename_option(verb, name): value for name, value in given.items()}

    def spell(self, verb: str, *arguments: object, **options: Any) -> list[str]:
        """The words of a command under the names of today, noted as touched."""
        words = [rename_command(verb), *map(str, arguments)]
        self.touched.add(words[0])
        for name, value in options.items():
            flag = rename_flag(verb, name)
            self.touched.add(f"{words[0]} {flag}")
            for one in value if isinstance(value, list) else [value]:
                words += [flag] if one is True else [flag, str(rename_value(name, one))]
        return words

    def command(self, verb: str, *arguments: object, expect: int = 0, **options: Any) -> str:
        """Run a verb of the command line in this process; answer its standard output. An option given a list is repeated."""
        words = self.spell(verb, *arguments, **options)
        out, err = io.StringIO(), io.StringIO()
        with replaced_arguments(["isoscope", *words]), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                import_main()()
            except SystemExit as end:
                code = end.code
        if code != expect:
            raise AssertionError(f"isoscope {' '.join(words)} ended with {code} instead of {expect}:\n{err.getvalue()}\n{out.getvalue()}")
        self.notes += [line.partition("note: ")[2] for line in err.getvalue().splitlines() if line.startswith("isoscope: note: ")]
        return out.getvalue()

    def json(self, verb: str, *arguments: object, **options: Any) -> Any:
        """What a verb prints as JSON."""
        return json.loads(self.command(verb, *arguments, json=True, **options))


@contextlib.contextmanager
def replaced_arguments(words: list[str]) -> Iterator[None]:
    """The arguments of the process, for a while. Warnings are notes on the command line, not errors as in the tests."""
    before = sys.argv
    sys.argv = words
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            yield
    finally:
        sys.argv = before
