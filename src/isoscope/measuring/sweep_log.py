"""The ledger of a sweep, kept in its run: the hashes of each checkpoint, faults, and which checkpoints the sweep downloaded."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.models.naming.audit import CheckpointRecord
from isoscope.models.naming.suite import Checkpoint, Suite
from isoscope.runs.writing import disk_errors_as_user_errors, flush, write_atomically
from isoscope.trust.safe_io import open_regular, parse_json

AUDIT = "audit.json"
JOURNAL = "audit.jsonl"


class Ledger:
    """`audit.jsonl` of a run, to which each event adds a line, and `audit.json`, a summary for readers, written at the end.

    Lines are only ever added, each by one write. So a process that is killed loses nothing, two processes that write into one run lose
    nothing, and twenty thousand checkpoints cost twenty thousand lines, not as many copies of the whole ledger.
    """

    def __init__(self, run: Path) -> None:
        self.run, self.journal = run, run / JOURNAL
        self._known: dict[str, Any] = {"suites": {}, "downloaded": []}
        self._read_to = 0

    def read(self) -> dict[str, Any]:
        """The ledger: under `suites`, by name, `checkpoints` and `faults`; under `downloaded`, the checkpoints that may be deleted."""
        if _size(self.journal) > self._read_to + 1:  # reading continues at the line end where it stopped
            try:
                with open_regular(self.journal) as file:
                    file.seek(self._read_to)
                    # A last line without an end is being written, or its process was killed while it wrote. It is not read.
                    lines = file.read().rpartition(b"\n")[0]
            except OSError as error:
                raise IsoscopeError(f"{self.journal} is damaged ({error.strerror or error}); delete it and run again.") from error
            self._read_to += len(lines)
            for line in lines.splitlines():
                self._apply(line)
        return self._known

    def _apply(self, line: bytes) -> None:
        """Apply one line. A line that was cut off by a kill, or has another form, is ignored: its checkpoint is read again."""
        try:
            event = parse_json(line) if line.strip() else {}
        except ValueError:
            return
        downloaded = self._known["downloaded"]
        match event:
            case {"suite": str(name), "place": str(place), "seen": dict(entry)} if _is_entry(entry):
                self._known["suites"].setdefault(name, {"checkpoints": {}, "faults": []})["checkpoints"][place] = entry
            case {"suite": str(name), "faults": [*faults]}:
                self._known["suites"].setdefault(name, {"checkpoints": {}, "faults": []})["faults"] = faults
            case {"claimed": str(spec)} if spec not in downloaded:
                downloaded.append(spec)
            case {"released": str(spec)} if spec in downloaded:
                downloaded.remove(spec)

    def _append(self, event: dict[str, Any]) -> None:
        """Add a line, and have it on the disk."""
        # It begins with a line end too: the last line may have none, if its process was killed.
        line = f"\n{json.dumps(event, ensure_ascii=False)}\n".encode()
        with disk_errors_as_user_errors(self.run):
            is_new = not os.path.lexists(self.journal)
            handle = os.open(self.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
            try:
                os.write(handle, line)
                os.fsync(handle)
            finally:
                os.close(handle)
            if is_new:
                flush(self.run)

    def _entry(self, suite: Suite, checkpoint: CheckpointRecord | Checkpoint) -> dict[str, Any] | None:
        entry: dict[str, Any] | None = self.read()["suites"].get(suite.name, {}).get("checkpoints", {}).get(_place(checkpoint))
        return entry

    def record(self, suite: Suite, checkpoint: Checkpoint, revision: str, record: CheckpointRecord, stamp: str = "") -> None:
        """Record the hashes of a checkpoint or its problem, and the stamp of a local one."""
        entry = {"spec": checkpoint.spec, "revision": revision, **asdict(record), "stamp": stamp}
        if self._entry(suite, record) != entry:
            self._append({"suite": suite.name, "place": _place(record), "seen": entry})

    def records(self, suite: Suite) -> list[CheckpointRecord]:
        """The records of the suite's checkpoints."""
        entries = [self._entry(suite, checkpoint) for checkpoint in suite.checkpoints]
        return [CheckpointRecord(**{name: entry[name] for name in CheckpointRecord.__dataclass_fields__}) for entry in entries if entry]

    def revision(self, suite: Suite, checkpoint: Checkpoint, stamp: str | None = None) -> str | None:
        """The recorded revision of a checkpoint; None if it had a problem, or if its files look different now."""
        entry = self._entry(suite, checkpoint)
        if not entry or entry["problem"] or entry["spec"] != checkpoint.spec or (stamp is not None and entry.get("stamp") != stamp):
            return None
        return str(entry["revision"])

    def record_faults(self, suite: Suite, faults: list[str]) -> None:
        """Record the faults of a suite, and write the summary."""
        self._append({"suite": suite.name, "faults": faults})
        text = json.dumps(self.read(), indent=1, ensure_ascii=False)
        write_atomically(self.run / AUDIT, lambda temporary: temporary.write_text(text, "utf-8", "backslashreplace"))

    def claim(self, spec: str) -> None:
        """Record that a checkpoint is about to be downloaded, and was not in the cache before."""
        if not self.is_claimed(spec):
            self._append({"claimed": spec})

    def release(self, spec: str) -> None:
        """Record that a downloaded checkpoint was deleted."""
        self._append({"released": spec})

    def is_claimed(self, spec: str) -> bool:
        """Whether a checkpoint was downloaded by a sweep into this run."""
        return spec in self.read()["downloaded"]


def _is_entry(value: dict[str, Any]) -> bool:
    """Whether an object has the fields of a checkpoint's record."""
    texts = all(isinstance(value.get(name), str) for name in ("tensors", "matrices", "problem", "spec", "revision"))
    return texts and isinstance(value.get("seed", ""), int | None) and isinstance(value.get("step"), int)


def stamp_of(spec: str) -> str:
    """A hash of the names, sizes and times of a local checkpoint's files. While it is the same they are not read again."""
    # A checkpoint takes seconds to hash and milliseconds to stamp. An edit that keeps name, size and time to the nanosecond goes unseen.
    root = os.path.expanduser(spec)
    try:
        files = sorted(_list_files(root))
    except OSError:
        return ""
    return hashlib.sha256(repr(files).encode()).hexdigest()[:24]


def _list_files(path: str) -> Iterator[tuple[str, int, int]]:
    """Path, size and time of each file below a path."""
    # Strings, not `Path` objects: there may be a hundred thousand files, and objects would take most of the time.
    if not os.path.isdir(path):
        status = os.stat(path)
        yield path, status.st_size, status.st_mtime_ns
        return
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _list_files(entry.path)
            else:
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns


def _size(path: Path) -> int:
    """The bytes of the journal. For a link it is the length of its target's name; opening the link is then refused."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _place(checkpoint: CheckpointRecord | Checkpoint) -> str:
    return f"{'-' if checkpoint.seed is None else checkpoint.seed}/{checkpoint.step}"
