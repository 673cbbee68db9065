"""The application that the verbs belong to."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer

from isoscope.cli import (
    baseline,
    block,
    cite,
    claims,
    compare,
    conventions,
    drift,
    dynamics,
    embeddings,
    list_,
    measure,
    merge,
    report,
    reproduce,
    serve,
    sweep,
    table,
    train,
    verify,
)
from isoscope.core.version import __version__

app = typer.Typer(
    name="isoscope",
    help="A microscope for the geometry of Transformer representations.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
VERBS = (
    *(measure, sweep, train, reproduce, embeddings),
    *(table, claims, compare, conventions, drift, dynamics, merge, verify),
    *(report, serve, cite, baseline, block, list_),
)
for verb in VERBS:
    app.command(name=verb.__name__.rpartition(".")[2].rstrip("_"))(verb.run)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"isoscope {__version__}")
        raise typer.Exit


def _say(message: Warning | str, category: type[Warning], *_: object) -> None:
    from isoscope.core.printable import plain

    typer.echo(plain(f"isoscope: note: {message}"), err=True)


@app.callback()
def isoscope(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """A microscope for the geometry of Transformer representations."""
    from isoscope.core.errors import IsoscopeWarning

    shown = warnings.showwarning

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: object = None, line: str | None = None
    ) -> None:
        if issubclass(category, IsoscopeWarning):
            _say(message, category)
        else:
            shown(message, category, filename, lineno)

    warnings.showwarning = show
