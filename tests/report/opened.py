"""A page in a browser, with everything it complained of and asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, Page

from tests.patience import HANG_LIMIT

PATIENCE = 1000 * HANG_LIMIT
"""Milliseconds, as Playwright counts."""


@dataclass
class Opened:
    """A page that has drawn all it shows."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def drawn(self) -> Opened:
        """Charts are drawn when they come into view; a page that is about to be printed draws them all."""
        self.page.wait_for_selector("html[data-drawn]", state="attached", timeout=PATIENCE)
        self.ask("() => { window.dispatchEvent(new Event('beforeprint')); }")
        self.page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=PATIENCE)
        return self

    def ask(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def settled(self) -> None:
        """Wait until what was asked of the charts has been drawn."""
        self.ask("() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 150))")


def opened(browser: Browser, address: str, width: int = 1440, height: int = 900, **options: Any) -> Opened:
    """A new window on an address; nothing in it is remembered from another."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    context.set_default_timeout(PATIENCE)
    found = Opened(context.new_page())
    found.page.on(
        "console", lambda said: found.complaints.append(f"{said.type}: {said.text}") if said.type in ("error", "warning") else None
    )
    found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
    found.page.on("crash", lambda _: found.complaints.append("crashed"))
    context.on("request", lambda request: found.requests.append(request.url))
    found.page.goto(address)
    return found
