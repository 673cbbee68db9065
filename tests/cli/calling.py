"""The command line as a stranger meets it: words in, exit code, standard output and standard error out."""

import contextlib
import io
import json
import os
import sys
import warnings
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pandas as pd

from isoscope.cli import main
from tests.patience import run_process


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    def refused(self, *pieces: str) -> None:
        """One sentence on standard error that holds these pieces, nothing on standard output, exit code 2."""
        assert "Traceback" not in self.err
        assert self.code == 2, (self.code, self.err)
        assert self.out == ""
        assert self.err.startswith("isoscope: "), self.err
        assert self.err.count("isoscope: ") == 1, self.err
        assert self.err.rstrip("\n")[-1] in ".?", self.err
        for piece in pieces:
            assert piece in self.err, (piece, self.err)

    def worked(self) -> "Answer":
        assert self.code == 0, self.err
        assert "Traceback" not in self.err
        return self


def isoscope(*words: object) -> Answer:
    """Call the command line in this process; warnings are shown as they are to a user and not raised as they are in tests."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("default")
        stack.enter_context(mock.patch.object(sys, "argv", ["isoscope", *map(str, words)]))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            main()
        except SystemExit as end:
            return Answer(int(end.code or 0), out.getvalue(), err.getvalue())


def command(*words: object) -> list[str]:
    """The same for a process of its own."""
    return [sys.executable, "-m", "isoscope", *map(str, words)]


def process(*words: object, **environment: str | None) -> Answer:
    """Run the command line as a process; None takes a variable out of the environment."""
    shown = {**os.environ, **environment}
    ended = run_process(command(*words), env={name: value for name, value in shown.items() if value is not None})
    return Answer(ended.returncode, ended.stdout, ended.stderr)


def read_strict_json(text: str) -> Any:
    """JSON as jq reads it: without NaN and Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def read_csv(answer: Answer) -> pd.DataFrame:
    """The table that a command printed."""
    return pd.read_csv(io.StringIO(answer.worked().out))
