"""The application and its verbs."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Annotated

import typer

from isoscope.cli import (
    cite,
    claims,
    compare,
    compare_definitions,
    drift_test,
    dynamics,
    embeddings,
    isotropic_null,
    list_,
    measure,
    merge,
    report,
    reproduce,
    serve,
    sweep,
    table,
    train,
    untrained_block,
    verify,
)
from isoscope.cli.output import print_note
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
PANELS: dict[str, tuple[ModuleType, ...]] = {
    "Measure": (measure, sweep, train, embeddings),
    "Read a run": (table, report, serve, compare, cite, list_),
    "Studies": (reproduce, claims, drift_test, dynamics, compare_definitions, isotropic_null, untrained_block),
    "Maintain runs": (merge, verify),
}
"""The verbs under the headings of `isoscope --help`."""
VERBS = tuple(verb for verbs in PANELS.values() for verb in verbs)


def name_verb(verb: ModuleType) -> str:
    """The name of a verb on the command line, which is that of its file."""
    return verb.__name__.rpartition(".")[2].rstrip("_").replace("_", "-")


for panel, verbs in PANELS.items():
    for verb in verbs:
        app.command(name=name_verb(verb), rich_help_panel=panel)(verb.run)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"isoscope {__version__}")
        raise typer.Exit


@app.callback()
def isoscope(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """A microscope for the geometry of Transformer representations."""
    from isoscope.core.errors import IsoscopeWarning

    show_other = warnings.showwarning

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: object = None, line: str | None = None
    ) -> None:
        if issubclass(category, IsoscopeWarning):
            print_note(str(message))
        else:
            show_other(message, category, filename, lineno)

    warnings.showwarning = show
