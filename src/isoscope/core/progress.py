"""Progress bars on the standard error stream, and notes between them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from isoscope.core.wording import format_duration, format_share, plain

FETCH_THREAD = "isoscope fetch"
"""The name of a daemon thread that fetches what is measured next."""
LONG = 10.0
"""Seconds of a task that says beforehand how long it will take, and between the lines of one whose output is piped."""
SOON = 0.5
"""Seconds after which the first part of a task tells how long the whole will take."""
LONGEST_TITLE = 40
"""Characters of a title before a bar, which leave room for the bar in 80 columns."""


class Progress:
    """Shows how far a long task is: a bar in a terminal, a line every ten seconds if the output is piped. Silent if `quiet`."""

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
        """Show a bar while the context lasts; `what` is done, `total` of them if that is known, counted in `unit`.

        If it will take longer than ten seconds, a line says so as soon as that is known.
        """
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
                lines = Lines(self, what, total, unit, every=None if console.is_terminal else LONG)
                yield Bar(bars, bars.add_task(_shorten(plain(what)), total=total, rate=""), lines)
            finally:
                self._bars = None


class Bar:
    """One task of a progress display."""

    def __init__(self, bars: Any, task: Any, lines: Lines) -> None:
        self._bars, self._task, self._lines = bars, task, lines

    def advance(self, amount: float = 1, *, rate: str | None = None) -> None:
        """Move the bar forward by an amount."""
        self._bars.update(self._task, advance=amount, **({} if rate is None else {"rate": rate}))
        self._lines.advance(amount)


class Lines:
    """The lines of a long task: how long it will take, once, and how far it is, at regular intervals."""

    def __init__(self, progress: Progress, what: str, total: int | None, unit: str, every: float | None) -> None:
        """`every`: seconds between two lines; None for the first line only, because a bar shows the rest."""
        self._progress, self._what, self._total, self._unit, self._every = progress, what, total, unit, every
        self._started = self._last = clock()
        self._done, self._announced = 0.0, total is None

    def advance(self, amount: float) -> None:
        """Count what was done, and print a line if one is due."""
        now = clock()
        # What was done before, by an interrupted command, says nothing about the speed.
        if now - self._started < 1e-3 and amount and not self._done:
            self._total = None if self._total is None else max(round(self._total - amount), 1)
            return
        self._done += amount
        passed = now - self._started
        whole = passed * self._total / self._done if self._total and self._done > 0 else None
        if not self._announced and passed >= SOON and whole is not None:
            self._announced = True
            if whole > LONG:
                self._progress.note(f"{self._what}: about {format_duration(whole)}")
                self._last = now
        elif self._every is not None and now - self._last >= self._every:
            self._last = now
            of = f"{self._done:,.0f} {self._unit}" if not self._total else f"{format_share(min(self._done / self._total, 1.0))} done"
            left = "" if whole is None else f", about {format_duration(max(whole - passed, 0.0))} left"
            self._progress.note(f"{self._what}: {of}{left}")


def _shorten(text: str) -> str:
    """The text itself, or its end, which tells what is done, if it is longer than a terminal has room for."""
    return text if len(text) <= LONGEST_TITLE else f"…{text[1 - LONGEST_TITLE :]}"


clock = time.monotonic


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
