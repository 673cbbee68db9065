"""Options stand under their headings, in one order for all commands."""

import inspect
from typing import Annotated

import pytest
import typer
from typer.models import OptionInfo
from typer.testing import CliRunner

from isoscope.cli.app import app, list_verbs
from isoscope.console.help_panels import MUCH, OUTPUT, PANELS, WHAT, group_options


def option_infos(verb):
    pairs = (
        (p.name, next((entry for entry in getattr(p.annotation, "__metadata__", ()) if isinstance(entry, OptionInfo)), None)) for p in verb
    )
    return {name: info for name, info in pairs if info is not None}


def test_the_listed_options_come_first_and_in_their_order():
    def verb(
        quiet: Annotated[bool, typer.Option("--quiet")] = False,
        novel: Annotated[str, typer.Option()] = "",
        max_items: Annotated[int | None, typer.Option()] = None,
        run: Annotated[str, typer.Argument()] = ".",
        max_tokens: Annotated[int | None, typer.Option()] = None,
        metric: Annotated[list[str] | None, typer.Option()] = None,
        width: Annotated[float, typer.Option(rich_help_panel=WHAT)] = 1.0,
    ) -> None:
        """A verb."""

    parameters = inspect.signature(group_options(verb)).parameters
    assert list(parameters) == ["run", "metric", "novel", "width", "max_tokens", "max_items", "quiet"]
    infos = option_infos(parameters.values())
    assert {name: info.rich_help_panel for name, info in infos.items()} == {
        **dict.fromkeys(("metric", "novel", "width"), WHAT),
        **dict.fromkeys(("max_tokens", "max_items"), MUCH),
        "quiet": OUTPUT,
    }
    assert {name: info.metavar for name, info in infos.items()} == {
        "metric": "TEXT",
        "novel": "TEXT",
        "width": "X",
        "max_tokens": "N",
        "max_items": "N",
        "quiet": "",
    }


def test_a_verb_gets_the_values_that_were_given():
    seen = {}

    def verb(
        name: Annotated[str, typer.Argument()], metric: Annotated[list[str] | None, typer.Option()] = None, json: bool = False
    ) -> None:
        """A verb."""
        seen.update(name=name, metric=metric, json=json)

    single = typer.Typer()
    single.command()(group_options(verb))
    assert CliRunner().invoke(single, ["x", "--metric", "a", "--metric", "b"]).exit_code == 0
    assert seen == {"name": "x", "metric": ["a", "b"], "json": False}


@pytest.mark.parametrize("verb", [verb for verbs in list_verbs().values() for verb in verbs])
def test_every_option_of_every_verb_has_a_heading_and_no_python_type(verb):
    command = next(entry for entry in app.registered_commands if entry.name == verb)
    for name, info in option_infos(inspect.signature(command.callback).parameters.values()).items():
        assert info.rich_help_panel in PANELS, name
        assert info.metavar is not None, name
    assert not {name for names in PANELS.values() for name in names if sum(name in other for other in PANELS.values()) > 1}
