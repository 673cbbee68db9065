"""How `--help` shows the options of every verb: under headings, the most used first, each with the kind of its value."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

WHAT, ON, MUCH, ATTENTION, WHERE, OUTPUT = "What to measure", "On what", "How much", "Attention", "Where it runs", "Output"
PANELS: dict[str, tuple[str, ...]] = {
    WHAT: ("metric", "repair", "policy", "convention", "model", "layers", "taps", "pool", "pool_layers", "steps", "seeds"),
    ON: (
        "data",
        "column",
        "key",
        "tokenizer",
        "processor",
        "models",
        "folder",
        "run",
        "allow_wide",
        "trust_remote_code",
        "allow_partial",
        "partial",
    ),
    MUCH: ("max_tokens", "max_items", "seq_len", "sample", "split_into", "shard", "draws", "n", "d", "seed"),
    ATTENTION: ("query_rows", "attention_median", "after_rotary", "ablate_queries"),
    WHERE: ("device", "dtype", "threads", "processes", "batch_size", "device_map", "executor", "address", "port", "delete"),
    OUTPUT: (
        *("out", "wide", "format", "figures", "only", "width", "title", "store", "save_every", "dry_run", "audit_only"),
        *("strict", "fail_over", "json", "quiet", "version", "help"),
    ),
}
"""The options under each heading. An option that is not listed comes under the first heading, after those that are."""
VALUES = {str: "TEXT", int: "N", float: "X", bool: ""}
"""How the value of an option is called that has no name of its own; a flag has no value."""


def group_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Order and name the options of a verb, so that Typer shows them under their headings. The verb itself stays as it is."""
    hints = get_type_hints(verb, include_extras=True)
    parameters = [p.replace(annotation=hints[p.name]) for p in inspect.signature(verb).parameters.values()]
    options = [p for p in parameters if isinstance(_info(p), OptionInfo)]
    for parameter in options:
        info = _info(parameter)
        info.rich_help_panel = info.rich_help_panel or panel_of(parameter.name)
        if info.metavar is None:
            info.metavar = VALUES.get(_value_type(parameter.annotation), "TEXT")
    options.sort(key=lambda p: _place(p.name, str(_info(p).rich_help_panel)))
    ordered = [*(p for p in parameters if p not in options), *options]

    def run(**given: Any) -> Any:
        return verb(**given)

    run.__name__, run.__doc__, run.__module__ = verb.__name__, verb.__doc__, verb.__module__
    # Typer reads the signature and the annotations of a command, not its code.
    run.__annotations__ = {p.name: p.annotation for p in ordered}
    run.__signature__ = inspect.Signature([p.replace(kind=p.KEYWORD_ONLY) for p in ordered])  # type: ignore[attr-defined]
    return run


def panel_of(option: str) -> str:
    """The heading of an option.

    >>> panel_of("max_tokens"), panel_of("json"), panel_of("something_new")
    ('How much', 'Output', 'What to measure')
    """
    return next((panel for panel, names in PANELS.items() if option in names), WHAT)


def _place(option: str, panel: str) -> tuple[int, int]:
    names = PANELS.get(panel, ())
    return list(PANELS).index(panel) if panel in PANELS else 0, names.index(option) if option in names else len(names)


def _info(parameter: inspect.Parameter) -> ParameterInfo | Any:
    """The declaration of an argument or an option within `Annotated`."""
    return next((entry for entry in get_args(parameter.annotation) if isinstance(entry, OptionInfo | ArgumentInfo)), None)


def _value_type(annotation: Any) -> Any:
    """The type of one value of an option: of `list[str] | None` it is str."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _value_type(get_args(annotation)[0])
    inner = [entry for entry in get_args(annotation) if entry is not type(None)]
    return _value_type(inner[0]) if inner else annotation


def _tidy(parameters: list[Any], panel: str) -> list[Any]:
    """Typer makes --help by itself, and names the Python type of an argument; here --help has a heading, and no type is shown."""
    for parameter in parameters:
        if "--help" in parameter.opts:
            parameter.rich_help_panel, parameter.metavar = panel, ""
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: ""
    return parameters


class Verb(TyperCommand):
    """A command whose --help stands with its options of output, and whose arguments are shown without the types of Python."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, --help last."""
        return _tidy(super().get_params(ctx), OUTPUT)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options under their headings, where help is plain text, as in docs/cli.md."""
        records: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            heading = "Arguments" if parameter.param_type_name == "argument" else parameter.rich_help_panel or WHAT
            if (record := parameter.get_help_record(ctx)) is not None:
                records.setdefault(heading, []).append(record)
        for heading, rows in records.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


class Verbs(TyperGroup):
    """The commands, in the order in which they are declared."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, --help last."""
        return _tidy(super().get_params(ctx), "Options")
