"""What a sweep remembers in its run: what it saw of each checkpoint, what it found wrong, and what it downloaded itself."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from isoscope.core.bounded import read_json
from isoscope.core.errors import IsoscopeError
from isoscope.models.audit import Seen
from isoscope.models.suite import Checkpoint, Suite
from isoscope.store.cell import flush, writing

AUDIT = "audit.json"


@dataclass(frozen=True)
class Ledger:
    """`audit.json` of a run; read and written whole each time, so that a process that is killed loses nothing."""

    run: Path

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.run / AUDIT

    def read(self) -> dict[str, Any]:
        """`suites`: by name, `checkpoints` and `faults`; `downloaded`: what may be deleted again."""
        if not self.path.exists():
            return {"suites": {}, "downloaded": []}
        try:
            found: dict[str, Any] = read_json(self.path)
        except (OSError, ValueError) as error:
            raise IsoscopeError(f"{self.path} is damaged; delete it and run again.") from error
        if not _is_ledger(found):
            raise IsoscopeError(f"{self.path} is damaged; delete it and run again.")
        return found

    def _write(self, found: dict[str, Any]) -> None:
        temporary = self.path.with_suffix(f".{os.getpid()}.tmp")

        def act() -> None:
            temporary.write_text(json.dumps(found, indent=1, ensure_ascii=False), "utf-8", "backslashreplace")
            flush(temporary)
            temporary.replace(self.path)

        try:
            writing(act, self.run)
        finally:
            temporary.unlink(missing_ok=True)

    def see(self, suite: Suite, checkpoint: Checkpoint, revision: str, seen: Seen) -> None:
        """Remember what a checkpoint is."""
        found = self.read()
        mine = found["suites"].setdefault(suite.name, {"checkpoints": {}, "faults": []})
        mine["checkpoints"][_place(seen)] = {"spec": checkpoint.spec, "revision": revision, **asdict(seen)}
        self._write(found)

    def seen(self, suite: Suite) -> list[Seen]:
        """What is remembered of the suite's checkpoints."""
        kept = self.read()["suites"].get(suite.name, {}).get("checkpoints", {})
        found = [kept.get(_place(one)) for one in suite.checkpoints]
        return [Seen(**{name: one[name] for name in Seen.__dataclass_fields__}) for one in found if one]

    def revision(self, suite: Suite, checkpoint: Checkpoint) -> str | None:
        """The revision that was seen of a checkpoint, unless there was a problem with it."""
        one = self.read()["suites"].get(suite.name, {}).get("checkpoints", {}).get(_place(checkpoint))
        return str(one["revision"]) if one and not one["problem"] and one["spec"] == checkpoint.spec else None

    def judge(self, suite: Suite, faults: list[str]) -> None:
        """Remember what is wrong with a suite."""
        found = self.read()
        found["suites"].setdefault(suite.name, {"checkpoints": {}, "faults": []})["faults"] = faults
        self._write(found)

    def claim(self, spec: str) -> None:
        """Say that a checkpoint is about to be downloaded, and was not there before."""
        found = self.read()
        if spec not in found["downloaded"]:
            self._write(found | {"downloaded": [*found["downloaded"], spec]})

    def release(self, spec: str) -> None:
        """Say that it was deleted."""
        found = self.read()
        self._write(found | {"downloaded": [one for one in found["downloaded"] if one != spec]})

    def claimed(self, spec: str) -> bool:
        """Whether a checkpoint was downloaded by a sweep into this run."""
        return spec in self.read()["downloaded"]


def _is_ledger(found: Any) -> bool:
    """Whether something has the form of what was written."""

    def words(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)

    def seen(one: Any) -> bool:
        if not isinstance(one, dict) or not {*Seen.__dataclass_fields__, "spec", "revision"} <= one.keys():
            return False
        seed, step, *texts = (one[name] for name in ("seed", "step", "tensors", "matrices", "problem", "spec", "revision"))
        return isinstance(seed, int | None) and isinstance(step, int) and words(texts)

    def suite(one: Any) -> bool:
        form = isinstance(one, dict) and isinstance(one.get("checkpoints"), dict) and words(one.get("faults"))
        return form and all(map(seen, one["checkpoints"].values()))

    form = isinstance(found, dict) and isinstance(found.get("suites"), dict) and words(found.get("downloaded"))
    return form and all(map(suite, found["suites"].values()))


def _place(one: Seen | Checkpoint) -> str:
    return f"{'-' if one.seed is None else one.seed}/{one.step}"
