"""isoscope serve"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Annotated

import typer


def run(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="One or more runs, which may still be growing; they share a page.")],
    port: Annotated[int, typer.Option(help="The port on this machine; 0 chooses a free one.", min=0, max=65535)] = 8000,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
) -> None:
    """Serve the page of `isoscope report` on this machine, and rebuild it as the run grows. Ctrl-C stops it.

    Prints the address to open, which contains a token, so that other accounts on this machine cannot read the page. Listens on 127.0.0.1
    only, and serves nothing but the page.

    **Examples**

    `isoscope serve runs/training`

    `isoscope serve runs/bert runs/gpt2 --port 8010`
    """
    from isoscope.cli.report import read_runs
    from isoscope.core.errors import Failures, IsoscopeError, require_extra
    from isoscope.report.page import render_page
    from isoscope.report.serving import Follower, Server, state_of

    require_extra("report", "isoscope serve")
    for run in runs:
        if not Path(run).is_dir():
            raise IsoscopeError(f"There is no run at {run}; isoscope measure MODEL --out {run} makes one.")

    # A part that fails is shown as failed on the page, and the page is still served; its traceback goes to the terminal.
    def build(state: str) -> str:
        failures = Failures()
        text = render_page(*read_runs(runs), title=title, state=state, failures=failures)
        for error in failures.errors.values():
            traceback.print_exception(error)
        return text

    try:
        server = Server(Follower(lambda: state_of(runs), build), port)
    except OSError as error:
        reason = error.strerror or error
        raise IsoscopeError(f"Port {port} cannot be used ({reason}); choose another with --port, or 0 for any free one.") from error
    try:
        typer.echo(f"{server.address} (Ctrl-C stops it)", err=True)
        server.run()
    except KeyboardInterrupt:
        typer.echo("", err=True)
