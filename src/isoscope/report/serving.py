"""The page behind the standard library's server: on this machine only, built anew when the run has grown."""

from __future__ import annotations

import hashlib
import re
import signal
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.report.bundle import rendered
from isoscope.store.manifest import MANIFEST

ADDRESS = "127.0.0.1"
NAMES = ("localhost", "127.0.0.1", "[::1]")
"""What a browser may call this machine; a page elsewhere that points its own name here is refused."""
PAUSE = 2.0
"""Seconds between two looks at the run."""
TRIES = 3
"""How often a state is built that fails: a cell that is replaced just then is there at the next look, a damaged one never is."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def state_of(runs: Iterable[str]) -> str:
    """A name for what runs hold by now: it changes with every cell that is finished or replaced."""
    known = []
    for run in runs:
        cells = sorted(Path(run).glob(f"cells/[!.]*/{MANIFEST}"))
        if not cells:
            raise IsoscopeError(f"{run} holds no finished cell yet.")
        known += [f"{path} {path.stat().st_mtime_ns}" for path in cells]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]


@dataclass
class Follower:
    """The page of a run that may still be written: `look` names its state, `build` makes the page of that state.

    What goes wrong while a cell is being written is said on a waiting page, or, once there is a page, passed over until the next look.
    """

    look: Callable[[], str]
    build: Callable[[str], str]
    state: str = "waiting"
    why: str = "The page is being built."
    text: str | None = None
    tried: list[str] = field(default_factory=list, repr=False)

    def refresh(self) -> None:
        """Look at the run, and build the page if it has changed; a state that fails again and again is left."""
        try:
            state = self.look()
            if state == self.state or self.tried.count(state) == TRIES:
                return
            self.tried = [*(one for one in self.tried if one == state), state]
            self.text = self.build(state)
            self.state = state
        except Exception as error:  # whatever a run that is being written can cause: the server must outlive it
            self.why = str(error) or type(error).__name__

    def page(self) -> str:
        """The last page that could be built, or one that waits for it."""
        return self.text if self.text is not None else rendered("waiting.html.jinja", why=self.why, state=self.state)

    def follow(self, stopped: threading.Event) -> None:
        """Refresh until stopped."""
        while not stopped.is_set():
            self.refresh()
            stopped.wait(PAUSE)


class Server(ThreadingHTTPServer):
    """Serves one page at `/` and its state at `/state`, to this machine alone."""

    daemon_threads = True

    def __init__(self, follower: Follower, port: int) -> None:
        self.follower, self._interrupted = follower, threading.Event()
        super().__init__((ADDRESS, port), Handler)
        # Before anyone knows the address; also where a shell has its background jobs ignore the signal.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, lambda *_: self._interrupted.set())

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def run(self) -> None:
        """Serve, and follow the run, until interrupted."""
        stopped = threading.Event()
        threading.Thread(target=self.follower.follow, args=(stopped,), daemon=True).start()
        try:
            self.serve_forever(poll_interval=0.2)
        finally:
            stopped.set()
            self.server_close()

    def service_actions(self) -> None:
        """Between two requests: end where that was asked for."""
        super().service_actions()
        if self._interrupted.is_set():
            raise KeyboardInterrupt


class Handler(BaseHTTPRequestHandler):
    """GET and HEAD of two paths; nothing on disk is ever looked up by what a request says."""

    server: Server
    server_version, sys_version = "isoscope", ""

    def do_GET(self) -> None:
        """Answer with the page or its state."""
        self.answer()

    def do_HEAD(self) -> None:
        """The same without a body."""
        self.answer()

    def answer(self) -> None:
        """Refuse foreign names and other paths; else send what was asked for."""
        follower = self.server.follower
        if not is_local(self.headers.get_all("Host", [])):
            self.send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", "This page is only for this machine; open it as localhost.\n")
        elif self.path == "/":
            self.send(HTTPStatus.OK, "text/html", follower.page())
        elif self.path == "/state":
            self.send(HTTPStatus.OK, "text/plain", follower.state)
        else:
            self.send(HTTPStatus.NOT_FOUND, "text/plain", "There is only the page.\n")

    def send(self, status: HTTPStatus, kind: str, text: str) -> None:
        """A whole answer."""
        body = text.encode()
        self.send_response(status)
        for name, value in (HEADERS | {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


def is_local(hosts: list[str]) -> bool:
    """Whether a request names this machine, once, with a port or without.

    >>> is_local(["localhost:8000"]), is_local(["[::1]"]), is_local(["evil.example"]), is_local([]), is_local(["localhost:8000.evil"])
    (True, True, False, False, False)
    """
    if len(hosts) != 1:
        return False
    return re.sub(r":\d+$", "", hosts[0]) in NAMES
