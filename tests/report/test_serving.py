"""isoscope serve as a process of its own: this machine only, one page and nothing else, alive whatever happens to the run."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.report.serving import HEADERS, PAUSE, TRIES, Follower
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import MANIFEST, ROWS, manifest_of
from tests.figures.made_table import SIX, THIRTY, made_table
from tests.patience import HANG_LIMIT
from tests.report.opened import opened
from tests.runs.packing import write_made_cell

PATIENCE = HANG_LIMIT
A_LOOK = PAUSE + 0.7
"""Seconds after which the server has looked at the run again."""


@pytest.fixture(scope="module")
def cells(tmp_path_factory) -> dict[str, Path]:
    """Finished cells of two models, by model, to be put into runs as a measurement would: whole, by a rename."""
    run = Run(tmp_path_factory.mktemp("made"))
    table, series = made_table(twin=False)
    for name in (SIX, THIRTY):
        few = table["model"].eq(name) & table["metric"].isin(["between_cosine", "drift_ratio"])
        manifest = manifest_of({"experiment": "made", "model": name}, {"model": name}, {}, "rows")
        write_made_cell(run, name.replace("/", "-"), manifest, table[few], series.iloc[:0], None)
    return {name: run.path / "cells" / name.replace("/", "-") for name in (SIX, THIRTY)}


def put(cell: Path, run: Path) -> Path:
    """Let a run have a finished cell."""
    (run / "cells").mkdir(parents=True, exist_ok=True)
    hidden, goal = run / "cells" / f".{cell.name}", run / "cells" / cell.name
    shutil.copytree(cell, hidden)
    hidden.rename(goal)
    return goal


@dataclass
class Served:
    """A server under way."""

    process: subprocess.Popen[str]
    port: int
    token: str

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def ask(self, path: str = "/", method: str = "GET", host: str | None = None, **headers: str) -> tuple[int, str, dict[str, str]]:
        """Status, body and headers of an answer to a request that is sent exactly so, with the token where it has no query."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.putrequest(method, path if "?" in path else f"{path}?token={self.token}", skip_host=True)
        for name, value in {"Host": host or f"127.0.0.1:{self.port}", **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        found = answer.status, answer.read().decode(), {name.lower(): value for name, value in answer.getheaders()}
        connection.close()
        return found

    def state(self) -> str:
        return self.ask("/state")[1]

    def until(self, right: Callable[[str], bool]) -> str:
        """The first state that is right."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            assert self.process.poll() is None, "the server has ended"
            if right(state := self.state()):
                return state
            time.sleep(0.1)
        pytest.fail(f"the state stayed {self.state()}")


def started(*words: str) -> Served:
    """isoscope serve with these words, once it says where it is."""
    command = [sys.executable, "-m", "isoscope", "serve", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{32}) \(Ctrl-C stops it\)\n", line)
    if found is None:
        process.kill()
        pytest.fail(line + process.communicate()[1])
    return Served(process, int(found[1]), found[2])


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Starts servers, and ends those that a test did not."""
    begun: list[Served] = []

    def start(*words: str) -> Served:
        begun.append(started(*words))
        return begun[-1]

    yield start
    for one in begun:
        one.process.kill()
        one.process.communicate()


@pytest.fixture(scope="module")
def one(cells, tmp_path_factory) -> Iterator[Served]:
    """A server of a run with one model, for requests that change nothing; a secret lies in the run and one beside it."""
    run = tmp_path_factory.mktemp("runs") / "run"
    put(cells[SIX], run)
    (run / "secret.txt").write_text("secret", "utf-8")
    (run.parent / "secret.txt").write_text("secret", "utf-8")
    found = started(str(run), "--port", "0")
    found.until(lambda state: state != "waiting")
    yield found
    found.process.kill()
    found.process.communicate()


def assert_closed(headers: dict[str, str]) -> None:
    """An answer has every header that keeps the page from others, and says nothing of what made it."""
    assert {name: headers.get(name.lower()) for name in HEADERS} == HEADERS
    assert HEADERS["Content-Security-Policy"].startswith("default-src 'none'")
    assert "access-control-allow-origin" not in headers
    assert "set-cookie" not in headers
    assert not any("Python" in value for value in headers.values())


def listening(port: int) -> set[str]:
    """The addresses, as the kernel writes them, on which anything listens at a port."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text("utf-8").splitlines()[1:]]
    return {words[1].partition(":")[0] for words in lines if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port}


def test_it_listens_on_this_machine_only(one):
    assert listening(one.port) == {"0100007F"}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing: asks which address of this machine would be used
        own = probe.getsockname()[0]
    for address in {own, "127.0.0.2"} - {"127.0.0.1"}:
        with pytest.raises(OSError, match=r"refused|unreachable|timed out"):
            socket.create_connection((address, one.port), timeout=3)


@pytest.mark.parametrize(
    "path",
    [
        "/secret.txt",
        "/../secret.txt",
        "/cells/",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/..%5csecret.txt",
        "//etc/passwd",
        "/etc/passwd",
        "file:///etc/passwd",
        "http://127.0.0.1/",
        "http://example.com/",
        "/state/",
        "/index.html",
        "/.",
        "/%00",
        "*",
    ],
)
def test_there_is_only_the_page(one, path):
    status, body, headers = one.ask(path)
    assert (status, body) == (404, "There is only the page.\n")
    assert_closed(headers)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0", ""])
def test_a_foreign_name_is_refused(one, host):
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=PATIENCE)
    connection.putrequest("GET", "/", skip_host=True)
    connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, b"only for this machine" in answer.read()) == (421, True)
    assert_closed({name.lower(): value for name, value in answer.getheaders()})
    connection.close()


def test_a_name_of_this_machine_is_not(one):
    assert {one.ask(host=host)[0] for host in ("localhost", f"localhost:{one.port}", f"127.0.0.1:{one.port}")} == {200}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_nothing_can_be_sent_to_it(one, method):
    status, body, headers = one.ask("/", method)
    assert (status, body) == (501, "Not Implemented.\n")
    assert_closed(headers)
    assert one.ask("/state")[0] == 200


def test_the_page_comes_whole_and_closed(one):
    status, body, headers = one.ask()
    assert status == 200
    assert SIX in body
    assert_closed(headers)
    status, empty, also = one.ask(method="HEAD")
    assert (status, empty, also["content-length"]) == (200, "", str(len(body.encode())))


@pytest.mark.parametrize(
    "query", ["", "?x", "?token", "?token=", "?token=ä", "?token={}x", "?token={}&x", "?x&token={}", "?Token={}", "?{}", "?token=%20{}"]
)
@pytest.mark.parametrize("path", ["/", "/state", "/secret.txt"])
def test_without_the_token_nothing_is_shown(one, path, query):
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=PATIENCE)
    sent = f"{path}{query.format(one.token)}".encode().decode("latin-1")
    connection._validate_path = lambda _: None  # what is sent may be outside of ASCII
    connection._encode_request = lambda request: request.encode("latin-1")
    connection.request("GET", sent)
    answer = connection.getresponse()
    text = answer.read().decode()
    assert answer.status == 403
    assert "Open the full address that isoscope serve printed" in text
    assert one.token not in text
    assert_closed({name.lower(): value for name, value in answer.getheaders()})
    connection.close()


def test_two_servers_have_different_tokens(one, cells, tmp_path, serve):
    put(cells[SIX], tmp_path)
    other = serve(str(tmp_path), "--port", "0")
    assert other.token != one.token
    assert other.ask(f"/?token={one.token}")[0] == 403


def test_clients_that_reset_leave_no_traceback(cells, tmp_path, serve):
    """They go before the request is whole, before the answer, and while a page that is larger than any buffer is on its way."""
    put(cells[SIX], tmp_path)
    served = serve(str(tmp_path), "--port", "0")
    served.until(lambda state: state != "waiting")
    asked = f"GET /?token={served.token} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    for sent, read in ((b"GET / HT", 0), (asked[:-2], 0), (asked, 0), (asked, 1), (asked, 100)):
        for _ in range(5):
            line = socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            line.sendall(sent)
            if read:
                line.recv(read)
            line.close()
    assert served.ask()[0] == 200
    served.process.send_signal(signal.SIGINT)
    assert served.process.communicate(timeout=PATIENCE)[1].strip() == ""


def test_rubbish_does_not_end_it(one):
    many = b"".join(b"X-%d: a\r\n" % i for i in range(200))
    for rubbish, status in (
        (b"\x00\xff\n\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 421),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\n" + many + b"\r\n", 431),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
    ):
        with socket.create_connection(("127.0.0.1", one.port), timeout=PATIENCE) as line:
            line.sendall(rubbish)
            line.shutdown(socket.SHUT_WR)
            answer = http.client.HTTPResponse(line)
            answer.begin()
            assert answer.status == status, rubbish[:40]
            assert_closed({name.lower(): value for name, value in answer.getheaders()})
    socket.create_connection(("127.0.0.1", one.port), timeout=PATIENCE).close()
    idle = socket.create_connection(("127.0.0.1", one.port), timeout=PATIENCE)
    assert one.ask("/state")[0] == 200, "one who says nothing keeps nobody waiting"
    idle.close()


def test_it_survives_a_run_that_is_written_and_the_page_follows(cells, tmp_path, serve, chromium):
    """From an empty folder to a model, a half-written cell, a second model, damage and removal; the reader's choice is kept."""
    run = tmp_path / "a run"
    run.mkdir()
    served = serve(str(run), "--port", "0")
    shown = opened(chromium, served.address)
    assert shown.page.locator("h1").inner_text() == "Waiting for the run"
    shown.page.locator("#why", has_text="holds no finished cell yet").wait_for(timeout=PATIENCE * 1000)

    put(cells[SIX], run)
    first = served.until(lambda state: state != "waiting")
    shown.drawn()
    assert shown.page.locator(".overview .name").all_text_contents() == [SIX]
    shown.page.locator("#policy span", has_text=re.compile("^body$")).click()
    shown.page.locator("#theme").click()

    half = run / "cells" / cells[THIRTY].name
    for name, text in (("begun", None), (".hidden.123", "{"), ("cut-off", '{"format": 1, "ke')):
        (run / "cells" / name).mkdir()
        shutil.copy(cells[THIRTY] / ROWS, run / "cells" / name)
        if text is not None:
            (run / "cells" / name / MANIFEST).write_text(text, "utf-8")
    time.sleep(A_LOOK)
    assert served.state() == first, "what is not a whole cell changes nothing"
    assert SIX in served.ask()[1]
    shutil.rmtree(run / "cells" / "cut-off")

    shown.ask("() => { window.before = true; }")
    put(cells[THIRTY], run)
    second = served.until(lambda state: state != first)
    shown.page.wait_for_selector(f"html[data-state='{second}']", state="attached", timeout=PATIENCE * 1000)
    shown.drawn()
    assert shown.ask("() => window.before"), "the page was not loaded anew"
    assert shown.page.locator("#headline path[aria-label*='model: org/encoder-thirty']").count() == 32
    assert shown.page.locator(".overview .name").all_text_contents() == [SIX, THIRTY]
    assert shown.page.locator("#policy input:checked").get_attribute("value") == "body"
    assert shown.page.locator("#theme").inner_text() == "theme: light"

    rows = half / ROWS
    rows.write_bytes(rows.read_bytes()[:100])
    (half / MANIFEST).touch()
    time.sleep(A_LOOK)
    assert served.state() == second
    shutil.rmtree(half)
    third = served.until(lambda state: state != second)
    assert THIRTY not in served.ask()[1]
    shutil.rmtree(run)
    time.sleep(A_LOOK)
    assert (served.state(), served.process.poll()) == (third, None), "the last page stays"

    assert shown.complaints == []
    assert set(shown.requests) == {served.address, served.address.replace("/?", "/state?")}


def test_charts_move_with_the_run(cells, tmp_path, serve, chromium):
    """A cell that is replaced moves the marks of charts that are there; what the reader opened and holds stays as it is."""
    table, series = made_table(twin=False)
    few = table["model"].eq(SIX) & table["metric"].isin(["between_cosine", "drift_ratio"])
    changed = table[few].assign(value=table["value"] / 2, low=table["low"] / 2, high=table["high"] / 2)
    other = Run(tmp_path / "other")
    manifest = manifest_of({"experiment": "made", "model": SIX}, {"model": SIX}, {}, "rows")
    write_made_cell(other, cells[SIX].name, manifest, changed, series.iloc[:0], None)
    run = tmp_path / "run"
    cell = put(cells[SIX], run)
    served = serve(str(run), "--port", "0")
    first = served.until(lambda state: state != "waiting")
    shown = opened(chromium, served.address).drawn()
    peak = "() => document.querySelector('#headline path[aria-label*=\"layer: 6;\"]').ariaLabel"
    assert "value: 0.9;" in shown.ask(peak)
    shown.page.locator(".model summary").first.click()
    shown.page.locator("#theme").focus()
    shown.ask("() => { window.drawing = document.querySelector('#headline svg.marks'); }")
    shutil.rmtree(cell)
    put(other.path / "cells" / cell.name, run)
    served.until(lambda state: state != first)
    shown.page.wait_for_function(f"({peak})().includes('value: 0.45;')")
    assert shown.ask("() => window.drawing === document.querySelector('#headline svg.marks')")
    assert shown.page.locator(".answers li").inner_text().startswith("org/decoder-six anisotropic in")
    assert "reaches 0.450" in shown.page.locator(".answers li").inner_text()
    assert shown.page.locator(".model[open]").count() == 1
    assert shown.ask("() => document.activeElement.id") == "theme"
    assert shown.page.locator("#news").inner_text().startswith("Updated ")
    assert shown.complaints == []
    assert set(shown.requests) == {served.address, served.address.replace("/?", "/state?")}


def test_ctrl_c_ends_it_quietly(cells, tmp_path, serve):
    put(cells[SIX], tmp_path)
    served = serve(str(tmp_path), "--port", "0")
    idle = socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE)
    served.process.send_signal(signal.SIGINT)
    out, err = served.process.communicate(timeout=PATIENCE)
    idle.close()
    assert served.process.returncode in (0, 130)
    assert out == ""
    assert "Traceback" not in err
    assert "Exception" not in err
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", served.port), timeout=3)


def said(*words: str) -> tuple[int, str]:
    """The exit code and the complaint of a server that cannot begin."""
    ended = subprocess.run(
        [sys.executable, "-m", "isoscope", "serve", *words], capture_output=True, text=True, timeout=PATIENCE, env=os.environ, check=False
    )
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


def test_a_port_in_use_is_one_sentence(one, tmp_path):
    code, complaint = said(str(tmp_path), "--port", str(one.port))
    assert code == 2
    assert complaint == (
        f"isoscope: Port {one.port} cannot be used (Address already in use); choose another with --port, or 0 for any free one.\n"
    )


def test_a_missing_run_is_one_sentence(tmp_path):
    missing = tmp_path / "missing"
    code, complaint = said(str(missing), "--port", "0")
    assert code == 2
    assert complaint == f"isoscope: There is no run at {missing}; isoscope measure MODEL --out {missing} makes one.\n"


def test_a_state_whose_page_fails_is_tried_again_but_not_for_ever():
    answers = iter([OSError("a cell was being replaced"), "page of one"])
    built = []

    def build(state):
        built.append(state)
        if isinstance(answer := next(answers, IsoscopeError("damaged")), Exception):
            raise answer
        return answer

    states = iter(["one", "one", "one", *["two"] * 9])
    follower = Follower(lambda: next(states), build)
    for _ in range(3):
        follower.refresh()
    assert (follower.state, follower.page()) == ("one", "page of one")
    for _ in range(9):
        follower.refresh()
    assert built == ["one"] * 2 + ["two"] * TRIES
    assert (follower.state, follower.page(), follower.why) == ("one", "page of one", "damaged")


def test_a_bug_is_shown_and_the_server_goes_on(capfd):
    states = iter(["one", "two", "two", "three"])

    def build(state):
        return {"one": "page of one", "three": "page of three"}[state]

    follower = Follower(lambda: next(states), build)
    follower.refresh()
    assert follower.page() == "page of one"
    follower.refresh()
    assert follower.state == "two"  # so that an open page asks for the new one
    assert "Failed: a bug in isoscope" in follower.page()
    assert "KeyError: &#39;two&#39;" in follower.page()
    follower.refresh()
    assert capfd.readouterr().err.count("Traceback") == 1
    follower.refresh()
    assert (follower.state, follower.page()) == ("three", "page of three")
