"""A hub on loopback: it answers the hub's real client as the hub does, serves any folder, and misbehaves on demand."""

import hashlib
import json
import re
import threading
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

REPOSITORY = "([^/]+(?:/[^/]+)?)"  # org/name, or a name alone as the oldest models have
LARGE = (".safetensors", ".bin", ".pt", ".ckpt", ".gguf", ".h5", ".onnx", ".msgpack")
"""What the hub keeps outside of git, and so declares a SHA-256 of."""


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    token: str | None
    range: str | None
    status: int
    sent: int  # bytes of body


@dataclass
class Commit:
    files: dict[str, bytes]

    @property
    def sha(self) -> str:
        return hashlib.sha1(b"".join(name.encode() + content for name, content in sorted(self.files.items()))).hexdigest()

    def entry(self, name: str) -> dict:
        """A file as a listing shows it."""
        content = self.files[name]
        found = {"type": "file", "path": name, "size": len(content), "oid": git_sha1(content)}
        if name.endswith(LARGE):
            found["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        return found


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class LoopbackHub:
    """`hub.add("org/name", folder, revisions={"v1": another})`, then what `hub.environment(home)` says makes the client come here."""

    repositories: dict[str, dict[str, Commit]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    """Tokens that are known; any other is refused."""
    private: set[str] = field(default_factory=set)
    """Repositories that only a known token sees."""
    gated: set[str] = field(default_factory=set)
    """Repositories that anyone sees and nobody was let into."""
    spoilt: set[str] = field(default_factory=set)
    """Files that arrive with one byte changed."""
    breaks: dict[str, int] = field(default_factory=dict)
    """Files whose next download ends after so many bytes."""
    down: int | None = None
    """The status of every answer, where set."""

    def __enter__(self) -> "LoopbackHub":
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Answers,), {"hub": self}))
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def add(self, repository: str, folder: Path | None = None, revisions: dict[str, Path] | None = None) -> None:
        """Serve a folder as `main`, and others as other revisions; each is found by the hash of its commit too."""
        places = ({"main": folder} if folder else {}) | (revisions or {})
        commits = {revision: self._commit(place) for revision, place in places.items()}
        self.repositories[repository] = commits | {commit.sha: commit for commit in commits.values()}

    @staticmethod
    def _commit(folder: Path) -> Commit:
        return Commit({path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()})

    def commit(self, repository: str, revision: str = "main") -> str:
        return self.repositories[repository][revision].sha

    def environment(self, home: Path) -> dict[str, str | None]:
        """For a process (None takes a variable out): this hub, a cache in `home`, and nothing of the user's own."""
        own = ("HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_CACHE", "HTTP_PROXY", "http_proxy", "ALL_PROXY")
        unset: dict[str, str | None] = dict.fromkeys(own)
        return {**unset, "HF_ENDPOINT": self.url, "HF_HOME": str(home), "NO_PROXY": "127.0.0.1", "HF_HUB_DISABLE_TELEMETRY": "1"}

    def fetched(self) -> Counter:
        """How often the content of each file was asked for."""
        return Counter(seen.path.rpartition("/")[2] for seen in self.requests if seen.method == "GET" and "/api/" not in seen.path)


class Answers(BaseHTTPRequestHandler):
    """One connection."""

    hub: LoopbackHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        authorization = self.headers.get("Authorization")
        self.token = authorization.removeprefix("Bearer ") if authorization else None
        if self.hub.down:
            self.refuse(self.hub.down, None, "The hub is down")
        elif self.token is not None and self.token not in self.hub.tokens:
            self.refuse(401, None, "Invalid credentials in Authorization header")
        elif found := re.fullmatch(rf"/api/models/{REPOSITORY}/(revision|tree)/([^/]+)", path):
            self.listing(*map(unquote, found.groups()))
        elif found := re.fullmatch(rf"/{REPOSITORY}/resolve/([^/]+)/(.+)", path):
            self.file(*map(unquote, found.groups()))
        elif found := re.fullmatch(rf"/store/{REPOSITORY}/([^/]+)/(.+)", path):
            self.content(unquote(found[3]), self.hub.repositories[found[1]][found[2]])
        else:
            self.refuse(404, None, "Not found")

    def seen(self, repository: str, revision: str) -> Commit | None:
        """The commit, or an answer that it cannot be had."""
        revisions = self.hub.repositories.get(repository)
        if revisions is None or (repository in self.hub.private and self.token is None):
            # A stranger is not told whether a repository exists.
            self.refuse(404 if self.token else 401, "RepoNotFound", "Repository not found")
        elif revision not in revisions:
            self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        else:
            return revisions[revision]
        return None

    def listing(self, repository: str, kind: str, revision: str) -> None:
        commit = self.seen(repository, revision)
        if commit is None:
            return None
        entries = [commit.entry(name) for name in sorted(commit.files)]
        if kind == "tree":
            return self.answer(200, json.dumps(entries).encode(), {"Content-Type": "application/json"})
        blobs = "blobs=true" in urlsplit(self.path).query.lower()
        siblings = []
        for entry in entries:
            sibling = {"rfilename": entry["path"]}
            if blobs:
                sibling |= {"size": entry["size"], "blobId": entry["oid"]}
                if large := entry.get("lfs"):
                    sibling["lfs"] = {"sha256": large["oid"], "size": large["size"], "pointerSize": 134}
            siblings.append(sibling)
        about = {"_id": "0", "id": repository, "modelId": repository, "sha": commit.sha, "private": repository in self.hub.private}
        about |= {"tags": [], "downloads": 0, "likes": 0, "siblings": siblings}
        return self.answer(200, json.dumps(about).encode(), {"Content-Type": "application/json"})

    def file(self, repository: str, revision: str, name: str) -> None:
        commit = self.seen(repository, revision)
        if commit is None:
            return
        if repository in self.hub.gated:
            self.refuse(403 if self.token else 401, "GatedRepo", "Access to this model is restricted")
        elif name not in commit.files:
            self.refuse(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit.sha})
        elif large := commit.entry(name).get("lfs"):
            headers = {"X-Repo-Commit": commit.sha, "X-Linked-Etag": f'"{large["oid"]}"', "X-Linked-Size": str(large["size"])}
            self.answer(302, b"", headers | {"Location": f"{self.hub.url}/store/{repository}/{commit.sha}/{name}"})
        else:
            self.content(name, commit)

    def content(self, name: str, commit: Commit) -> None:
        content, entry = commit.files[name], commit.entry(name)
        if name in self.hub.spoilt:
            content = content[:-1] + bytes([content[-1] ^ 1])
        headers = {"ETag": f'"{entry.get("lfs", entry)["oid"]}"', "X-Repo-Commit": commit.sha, "Accept-Ranges": "bytes"}
        status, start = 200, 0
        if wanted := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            status, start = 206, int(wanted[1])
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        end = self.hub.breaks.pop(name, None) if self.command == "GET" else None
        self.answer(status, content[start:], headers, end=end)

    def refuse(self, status: int, code: str | None, message: str, more: dict[str, str] | None = None) -> None:
        headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {}) | (more or {})
        self.answer(status, json.dumps({"error": message}).encode(), headers)

    def answer(self, status: int, body: bytes, headers: dict[str, str], *, end: int | None = None) -> None:
        """Announce all of the body; `end` breaks off after so many bytes of it."""
        sent = b"" if self.command == "HEAD" else body[:end]
        # Before the answer: who has read it may count on finding it here.
        self.hub.requests.append(
            Request(self.command, unquote(urlsplit(self.path).path), self.token, self.headers.get("Range"), status, len(sent))
        )
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(sent)
        if end is not None:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""


@pytest.fixture
def hub():
    """A hub of its own for each test."""
    with LoopbackHub() as found:
        yield found
