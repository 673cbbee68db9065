"""How long a connection to the served page may last, how many there may be, and how a bug of ours is answered."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from isoscope.report.serving import HEADERS, Follower, Server
from tests.patience import HANG_LIMIT, wait_until


class Broken(Follower):
    def page(self) -> str:
        raise RuntimeError("planted")


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Starts servers of a page in this process, with limits of the test's own."""
    begun: list[tuple[Server, threading.Thread]] = []

    def start(follower: type[Follower] = Follower, text: str = "the page", **limits: float) -> Server:
        server = Server(follower(lambda: "one", lambda state: text, "one", text=text), 0, **limits)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        begun.append((server, thread))
        return server

    yield start
    for server, thread in begun:
        server.shutdown()
        thread.join()
        server.server_close()


def connected(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=HANG_LIMIT)


def request(server: Server) -> bytes:
    return f"GET /?token={server.token} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def ask(server: Server) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=HANG_LIMIT)
    connection.request("GET", f"/?token={server.token}")
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), dict(answer.getheaders())
    connection.close()
    return found


def test_a_silent_client_is_dropped(serve):
    with connected(serve(limit=0.05)) as line:
        assert line.recv(1) == b""


def test_a_client_that_sends_a_letter_at_a_time_is_dropped(serve):
    """Each letter comes in time; the request as a whole does not."""
    server = serve(limit=0.3)
    with connected(server) as line:
        line.settimeout(0.02)
        began, gone = time.monotonic(), False
        while not gone:
            assert time.monotonic() - began < HANG_LIMIT
            try:
                line.sendall(b"G")
                gone = line.recv(1) == b""
            except TimeoutError:
                pass
            except ConnectionError:
                gone = True


def test_a_client_that_reads_nothing_is_dropped_and_its_place_is_free_again(serve, capsys):
    server = serve(limit=0.3, most=1, text="x" * (64 << 20))
    with connected(server) as line:
        line.sendall(request(server))
        received = len(line.recv(1))  # from here on it reads nothing
        wait_until(lambda: server._free._value, "the connection to be dropped")
        while True:
            try:
                part = line.recv(1 << 20)
            except ConnectionError:
                break
            if not part:
                break
            received += len(part)
        assert received < 64 << 20
    assert capsys.readouterr().err == ""


def test_one_connection_too_many_is_turned_away(serve):
    server = serve(limit=HANG_LIMIT, most=2)
    idle = [connected(server), connected(server)]
    with connected(server) as line:
        answer = http.client.HTTPResponse(line)
        answer.begin()
        assert answer.status == 503
        assert {name: answer.getheader(name) for name in HEADERS} == HEADERS
    idle.pop().close()
    wait_until(lambda: server._free._value, "a place to be free")
    assert ask(server)[:2] == (200, "the page")
    idle.pop().close()


def test_a_bug_of_ours_is_answered_with_500_and_shown_with_its_traceback(serve, capsys):
    status, text, headers = ask(serve(Broken))
    assert status == 500
    assert "A bug in isoscope" in text
    assert "planted" not in text
    assert {name: headers[name] for name in HEADERS} == HEADERS
    assert "RuntimeError: planted" in capsys.readouterr().err
