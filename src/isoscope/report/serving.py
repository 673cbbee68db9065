"""A local web server for the page. It needs a token, and rebuilds the page whenever the run has grown."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import re
import secrets
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from isoscope.core.errors import IsoscopeError, describe_error
from isoscope.report.bundle import render_template
from isoscope.runs.run import Run

ADDRESS = "127.0.0.1"
NAMES = ("localhost", "127.0.0.1", "[::1]")
"""The names of this machine. Requests under any other name are refused: another site could point its own name here."""
LIMIT = 60.0
"""Seconds that a connection may last: enough for a page of some megabytes over a slow tunnel."""
MOST_CONNECTIONS = 32
"""Connections at one time; a browser opens up to six."""
PAUSE = 2.0
"""Seconds between two looks at the run, at least."""
REST = 3.0
"""The server rests this many times as long as its last look took, so that it leaves the processor to the training that it follows."""
TRIES = 3
"""Attempts to build a state: a cell that is just being replaced is there the next time, a damaged one never is."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
BUSY = "\r\n".join(
    ["HTTP/1.0 503 Service Unavailable", *(f"{name}: {value}" for name, value in HEADERS.items()), "Content-Length: 0", "", ""]
).encode("ascii")
"""The answer to one connection too many."""
NO_TOKEN = "This page needs its token. Open the full address that isoscope serve printed when it started, http://…/?token=….\n"


def state_of(runs: Iterable[str]) -> str:
    """A name for the present contents of runs; it changes with every cell that is finished or replaced."""
    contents = []
    for run in runs:
        cells = Run(run).manifest_stamps()
        if not cells:
            raise IsoscopeError(f"{run} holds no finished cell yet.")
        contents += [f"{run} {cells}"]
    return hashlib.sha256("\n".join(contents).encode()).hexdigest()[:16]


@dataclass
class Follower:
    """The page of a run that may still be written: `look` names its state, `build` makes the page of that state.

    An error while a cell is being written shows on a waiting page; once there is a page, it stays until the next look. A bug of ours
    replaces the page with its exception.
    """

    look: Callable[[], str]
    build: Callable[[str], str]
    state: str = "waiting"
    why: str = "The page is being built."
    text: str | None = None
    failed: bool = False
    """Whether a bug of ours replaces the page."""
    tried: list[str] = field(default_factory=list, repr=False)

    def refresh(self) -> None:
        """Look at the run, and build the page if it has changed; give up on a state after `TRIES` attempts."""
        state = self.state
        try:
            state = self.look()
            if state == self.state or self.tried.count(state) == TRIES:
                return
            self.tried = [*(earlier for earlier in self.tried if earlier == state), state]
            self.text = self.build(state)
            self.state, self.failed = state, False
        except (IsoscopeError, OSError) as error:  # the run is being written at this moment
            self.why = str(error) or type(error).__name__
        except Exception as error:  # a bug of ours: the page and the terminal show it, and the server keeps running
            traceback.print_exc()
            self.state, self.text, self.failed = state, None, True
            self.why = f"{describe_error(error)}. The traceback is on the standard error stream of the command."

    def page(self) -> str:
        """The last page that could be built, or a page that waits for it."""
        if self.text is not None:
            return self.text
        return render_template("waiting.html.jinja", why=self.why, state=self.state, failed=self.failed)

    def follow(self, stopped: threading.Event) -> None:
        """Refresh until stopped."""
        while not stopped.is_set():
            begun = time.monotonic()
            self.refresh()
            stopped.wait(max(PAUSE, REST * (time.monotonic() - begun)))


class Server(ThreadingHTTPServer):
    """Serves one page at `/` and its state at `/state`, only to this machine and only with the token.

    Every account of a machine can reach its ports. The token keeps the page to the user who started the server.
    """

    daemon_threads = True

    def __init__(self, follower: Follower, port: int, *, limit: float = LIMIT, most: int = MOST_CONNECTIONS) -> None:
        self.follower, self.limit, self.token = follower, limit, secrets.token_urlsafe(24)
        self._interrupted, self._free = threading.Event(), threading.BoundedSemaphore(most)
        super().__init__((ADDRESS, port), Handler)
        # A shell makes its background jobs ignore SIGINT, so the handler is set in any case, before anyone knows the address.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, lambda *_: self._interrupted.set())

    @property
    def address(self) -> str:
        """The URL of the page, with its token."""
        return f"http://{ADDRESS}:{self.server_port}/?token={self.token}"

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
        """Stop between two requests after an interrupt."""
        super().service_actions()
        if self._interrupted.is_set():
            raise KeyboardInterrupt

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a new thread, unless there are too many connections already."""
        if not self._free.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.setblocking(False)  # the answer fits into the socket's buffer, so that no client can block the server
                request.sendall(BUSY)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Close the connection after `limit` seconds, however slowly the client sends or reads."""
        # A socket timeout starts anew with every byte, so that a slow client could hold a thread for ever; a timer does not.
        timer = threading.Timer(self.limit, shut_down, [request])
        timer.daemon = True
        timer.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            timer.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that are gone; print the traceback of anything else, which is a bug of ours."""
        if not isinstance(sys.exception(), OSError):
            traceback.print_exc()


def shut_down(connection: socket.socket) -> None:
    """Shut down a connection that another thread waits for; that thread closes it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """GET and HEAD of two paths. No request can name a file on disk."""

    server: Server
    server_version, sys_version = "isoscope", ""

    def do_GET(self) -> None:
        """Send the page or its state."""
        self.answer()

    def do_HEAD(self) -> None:
        """Send the headers alone."""
        self.answer()

    def answer(self) -> None:
        """Send the page, its state or a refusal; after a bug of ours, an error."""
        try:
            answer = self.page_or_refusal()
        except Exception:
            traceback.print_exc()
            why = "A bug in isoscope: the traceback is on the standard error stream of isoscope serve.\n"
            answer = HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", why
        self.send(*answer)

    def page_or_refusal(self) -> tuple[HTTPStatus, str, str]:
        """The page or its state; a refusal for foreign names, other paths and requests without the token."""
        follower = self.server.follower
        path, _, query = self.path.partition("?")
        if not is_local(self.headers.get_all("Host", [])):
            return HTTPStatus.MISDIRECTED_REQUEST, "text/plain", "This page is only for this machine; open it as localhost.\n"
        # Comparing byte by byte until the first difference would tell, by its time, how much of a token is right.
        if not hmac.compare_digest(query.encode("utf-8", "backslashreplace"), f"token={self.server.token}".encode()):
            return HTTPStatus.FORBIDDEN, "text/plain", NO_TOKEN
        if path == "/":
            return HTTPStatus.OK, "text/html", follower.page()
        if path == "/state":
            return HTTPStatus.OK, "text/plain", follower.state
        return HTTPStatus.NOT_FOUND, "text/plain", "There is only the page.\n"

    def send(self, status: HTTPStatus, kind: str, text: str) -> None:
        """Send a complete answer."""
        body = text.encode()
        if not self.request_version.startswith("HTTP/1"):
            self.request_version = "HTTP/1.0"  # the base class sends no headers to HTTP/0.9, nor after a malformed request line
        self.send_response(status)
        for name, value in (HEADERS | {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a malformed request with the usual headers, without quoting it."""
        self.close_connection = True
        status = HTTPStatus(code)
        self.send(status, "text/plain", f"{status.phrase}.\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def is_local(hosts: list[str]) -> bool:
    """Whether a request names this machine, exactly once, with or without a port.

    >>> is_local(["localhost:8000"]), is_local(["[::1]"]), is_local(["evil.example"]), is_local([]), is_local(["localhost:8000.evil"])
    (True, True, False, False, False)
    """
    if len(hosts) != 1:
        return False
    return re.sub(r":\d+$", "", hosts[0]) in NAMES
