"""What a sweep remembers in its run: what it saw of each checkpoint, what it found wrong, and what it downloaded itself."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from isoscope.core.bounded import open_regular, parse_json, read_json
from isoscope.core.errors import IsoscopeError
from isoscope.models.audit import CheckpointRecord
from isoscope.models.suite import Checkpoint, Suite
from isoscope.store.writing import flush, write_whole, writing

AUDIT = "audit.json"
JOURNAL = "audit.jsonl"


class Ledger:
    """`audit.jsonl` of a run, to which a line is added for each thing seen, and `audit.json`, which says it all at the end.

    Lines are only ever added, each by one write: a process that is killed loses nothing, two that write one run lose nothing of each
    other's, and twenty thousand checkpoints cost twenty thousand lines.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self._known: dict[str, Any] | None = None
        self._read_to = 0
        self._journal = str(run / JOURNAL)

    @property
    def path(self) -> Path:
        """Where the summary lies."""
        return self.run / AUDIT

    @property
    def journal(self) -> Path:
        """Where the lines lie."""
        return self.run / JOURNAL

    def read(self) -> dict[str, Any]:
        """`suites`: by name, `checkpoints` and `faults`; `downloaded`: what may be deleted again."""
        if self._known is None:
            self._known = self._summary()
        if _size(self._journal) > self._read_to + 1:  # a line ends with a byte that the next one is read from
            try:
                with open_regular(self.journal) as file:
                    file.seek(self._read_to)
                    whole = file.read().rpartition(b"\n")[0]  # a line without an end is being written, or was when its process was killed
            except OSError as error:
                raise _damaged(self.journal, error.strerror or str(error)) from error
            self._read_to += len(whole)
            for line in whole.splitlines():
                self._apply(self._known, line)
        return self._known

    def _summary(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = read_json(self.path, follow=False)
        except FileNotFoundError:
            return {"suites": {}, "downloaded": []}
        except (OSError, ValueError) as error:
            raise _damaged(self.path, getattr(error, "strerror", None) or "it is no JSON") from error
        if not _is_ledger(found):
            raise _damaged(self.path, "it is not what a sweep writes")
        return found

    def _apply(self, known: dict[str, Any], line: bytes) -> None:
        """Take a line into account; one that was cut off by a kill, or is not of this form, says nothing: it is seen again."""
        try:
            said = parse_json(line) if line.strip() else {}
        except ValueError:
            return
        name, place, claimed = (said.get(key) if isinstance(said, dict) else None for key in ("suite", "place", "claimed"))
        if isinstance(name, str) and isinstance(place, str) and _is_seen(said.get("seen")):
            mine = known["suites"].setdefault(name, {"checkpoints": {}, "faults": []})
            mine["checkpoints"][place] = said["seen"]
        elif isinstance(claimed, str) and claimed not in known["downloaded"]:
            known["downloaded"].append(claimed)
        elif isinstance(said, dict) and "released" in said:
            known["downloaded"] = [one for one in known["downloaded"] if one != said["released"]]

    def _say(self, said: dict[str, Any]) -> None:
        line = f"\n{json.dumps(said, ensure_ascii=False)}\n".encode()  # begins a line of its own, should the last have no end

        def act() -> None:
            is_new = not os.path.lexists(self.journal)
            handle = os.open(self.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
            try:
                os.write(handle, line)
                os.fsync(handle)
            finally:
                os.close(handle)
            if is_new:
                flush(self.run)

        writing(act, self.run)

    def _write(self, found: dict[str, Any]) -> None:
        text = json.dumps(found, indent=1, ensure_ascii=False)
        write_whole(self.path, lambda temporary: temporary.write_text(text, "utf-8", "backslashreplace"))

    def _entry(self, suite: Suite, one: CheckpointRecord | Checkpoint) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.read()["suites"].get(suite.name, {}).get("checkpoints", {}).get(_place(one))
        return found

    def see(self, suite: Suite, checkpoint: Checkpoint, revision: str, seen: CheckpointRecord, stamp: str = "") -> None:
        """Remember what a checkpoint is, and of a local one how its files looked."""
        entry = {"spec": checkpoint.spec, "revision": revision, **asdict(seen), "stamp": stamp}
        if self._entry(suite, seen) != entry:
            self._say({"suite": suite.name, "place": _place(seen), "seen": entry})

    def seen(self, suite: Suite) -> list[CheckpointRecord]:
        """What is remembered of the suite's checkpoints."""
        found = [self._entry(suite, one) for one in suite.checkpoints]
        return [CheckpointRecord(**{name: one[name] for name in CheckpointRecord.__dataclass_fields__}) for one in found if one]

    def revision(self, suite: Suite, checkpoint: Checkpoint, stamp: str | None = None) -> str | None:
        """The revision that was seen of a checkpoint, unless there was a problem with it or its files look different now."""
        one = self._entry(suite, checkpoint)
        if not one or one["problem"] or one["spec"] != checkpoint.spec or (stamp is not None and one.get("stamp") != stamp):
            return None
        return str(one["revision"])

    def judge(self, suite: Suite, faults: list[str]) -> None:
        """Remember what is wrong with a suite."""
        found = self.read()
        found["suites"].setdefault(suite.name, {"checkpoints": {}, "faults": []})["faults"] = faults
        self._write(found)

    def claim(self, spec: str) -> None:
        """Say that a checkpoint is about to be downloaded, and was not there before."""
        if not self.claimed(spec):
            self._say({"claimed": spec})

    def release(self, spec: str) -> None:
        """Say that it was deleted."""
        self._say({"released": spec})

    def claimed(self, spec: str) -> bool:
        """Whether a checkpoint was downloaded by a sweep into this run."""
        return spec in self.read()["downloaded"]


def _words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_seen(one: Any) -> bool:
    """Whether something has the form of what is remembered of a checkpoint."""
    if not isinstance(one, dict) or not {*CheckpointRecord.__dataclass_fields__, "spec", "revision"} <= one.keys():
        return False
    seed, step, *texts = (one[name] for name in ("seed", "step", "tensors", "matrices", "problem", "spec", "revision"))
    return isinstance(seed, int | None) and isinstance(step, int) and _words(texts)


def _is_ledger(found: Any) -> bool:
    """Whether something has the form of what was written."""

    def suite(one: Any) -> bool:
        form = isinstance(one, dict) and isinstance(one.get("checkpoints"), dict) and _words(one.get("faults"))
        return form and all(map(_is_seen, one["checkpoints"].values()))

    form = isinstance(found, dict) and isinstance(found.get("suites"), dict) and _words(found.get("downloaded"))
    return form and all(map(suite, found["suites"].values()))


def stamp_of(spec: str) -> str:
    """How the files of a local checkpoint look: names, sizes and times. While it is the same they need not be read again."""
    root = os.path.expanduser(spec)
    try:
        looks = sorted(_looks(root))
    except OSError:
        return ""
    return hashlib.sha256(repr(looks).encode()).hexdigest()[:24]


def _looks(path: str) -> Iterator[tuple[str, int, int]]:
    """Strings and not paths: there may be a hundred thousand."""
    if not os.path.isdir(path):
        found = os.stat(path)
        yield path, found.st_size, found.st_mtime_ns
        return
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _looks(entry.path)
            else:
                found = entry.stat()
                yield entry.path, found.st_size, found.st_mtime_ns


def _size(path: str) -> int:
    """The bytes of the journal. For a link this is the length of its target's name; opening it then says that it is one."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _damaged(path: Path, reason: str) -> IsoscopeError:
    return IsoscopeError(f"{path} is damaged ({reason}); delete it and run again.")


def _place(one: CheckpointRecord | Checkpoint) -> str:
    return f"{'-' if one.seed is None else one.seed}/{one.step}"
