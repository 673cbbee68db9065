"""Progress bars on the standard error stream, and notes between them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from isoscope.core.wording import plain

FETCH_THREAD = "isoscope fetch"
"""The name of a daemon thread that fetches what is measured next."""


class Progress:
    """Shows how far a long task is. Silent if `quiet`."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._bars: Any = None

    def note(self, text: str) -> None:
        """Print one line, which stays."""
        if not self.quiet:
            self._console().print(plain(text), markup=False, highlight=False, soft_wrap=True)

    def _console(self) -> Any:
        # A note must go through the console of the bars: it is printed above them, and they are drawn again below it.
        from rich.console import Console

        return self._bars.console if self._bars is not None else Console(stderr=True)

    @contextlib.contextmanager
    def bar(self, what: str, total: int | None, unit: str) -> Iterator[Bar]:
        """Show a bar while the context lasts; `what` is done, `total` of them if that is known, counted in `unit`."""
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        console = self._console()
        bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:,.0f}" + (f"/{total:,}" if total else "") + f" {unit}"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            disable=self.quiet or not console.is_terminal,
            transient=True,
        )
        with bars:
            self._bars = bars
            try:
                yield Bar(bars, bars.add_task(plain(what), total=total, rate=""))
            finally:
                self._bars = None


class Bar:
    """One task of a progress display."""

    def __init__(self, bars: Any, task: Any) -> None:
        self._bars, self._task = bars, task

    def advance(self, amount: float = 1, *, rate: str | None = None) -> None:
        """Move the bar forward by an amount."""
        self._bars.update(self._task, advance=amount, **({} if rate is None else {"rate": rate}))


@contextlib.contextmanager
def without_hub_bars() -> Iterator[None]:
    """Hide the progress bars of the hub's downloads."""
    from huggingface_hub import utils

    disabled = utils.are_progress_bars_disabled()  # type: ignore[attr-defined]
    if not disabled:
        utils.disable_progress_bars()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if not disabled:
            utils.enable_progress_bars()  # type: ignore[attr-defined]
