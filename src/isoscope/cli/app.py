"""The application and its verbs. Those of the instrument are files of this folder; each study may bring one in its `command.py`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Annotated, Any

import typer

from isoscope import __version__
from isoscope.cli import cite, claims, compare, embeddings, fetch, list_, measure, merge, report, serve, sweep, table, train, verify
from isoscope.console.help_panels import Verb, Verbs, group_options
from isoscope.console.output import print_note
from isoscope.core.registry import modules_of

app = typer.Typer(
    name="isoscope",
    help="A microscope for the geometry of Transformer representations.",
    cls=Verbs,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
PANELS: dict[str, tuple[ModuleType, ...]] = {
    "Embeddings": (embeddings,),
    "Models: measure into a run": (measure, sweep, train, fetch),
    "Read a run": (table, report, serve, compare, claims, cite),
    "Keep runs in order": (merge, verify),
    "Studies": (),
    "Look up": (list_,),
}
"""The verbs of the instrument under the headings of `isoscope --help`, by task. A verb is called by the name of its file."""
START = """\
A microscope for the geometry of Transformer representations.

Are my embeddings healthy?
  isoscope embeddings vectors.npy

How anisotropic is each layer of my model?
  isoscope measure ./my-model --max-tokens 20000 --out runs/mine
  isoscope table runs/mine --wide
  isoscope report runs/mine --out mine.html

What happens in the course of a training?
  isoscope sweep runs/my-training --data corpus.txt --out runs/along
  isoscope dynamics runs/along

No model yet? Two small trainings come with isoscope:
  isoscope sweep embedded --out runs/embedded

`isoscope --help` lists all commands, `isoscope COMMAND --help` the options."""


def list_verbs() -> dict[str, dict[str, Callable[..., Any]]]:
    """By heading, every verb and the function that runs it."""
    panels = {
        panel: {verb.__name__.rpartition(".")[2].rstrip("_").replace("_", "-"): verb.run for verb in verbs}
        for panel, verbs in PANELS.items()
    }
    of_studies = {module.VERB: module.run for module in modules_of("isoscope.studies.*.command")}
    return panels | {"Studies": of_studies}


# Every verb is registered now, but imports what it runs on only when it is called: `--help` answers in half a second.
for panel, verbs in list_verbs().items():
    for verb, run in verbs.items():
        app.command(name=verb, cls=Verb, rich_help_panel=panel)(group_options(run))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"isoscope {__version__}")
        raise typer.Exit


@app.callback()
def isoscope(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.", metavar="", rich_help_panel="Options"),
    ] = False,
) -> None:
    """A microscope for the geometry of Transformer representations."""
    from isoscope.core.errors import IsoscopeWarning

    if ctx.invoked_subcommand is None:
        typer.echo(START)
        return

    # Warnings of other packages keep Python's form, with file and line: they are for developers.
    show_other = warnings.showwarning

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: object = None, line: str | None = None
    ) -> None:
        if issubclass(category, IsoscopeWarning):
            print_note(str(message))
        else:
            show_other(message, category, filename, lineno)

    warnings.showwarning = show
