"""Damaged files into everything that parses, in a process with limits; whatever is not an answer or one sentence is a find.

    python -m tests.hostile.fuzz --seconds 300 --seed 1
    python -m tests.hostile.fuzz --case config:1234

A case is a target and a number, and can be run again by them. A find is an exception that is no IsoscopeError, a command that ends
otherwise than with 0 or with 2 and a sentence, a refusal behind which a line of isoscope's failed by accident, a process that dies,
more than `PATIENCE` seconds of work, or more than `GROWTH` bytes beyond what the process had taken before.
"""

import argparse
import contextlib
import gc
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

from tests.hostile.commands import hidden_bug
from tests.hostile.targets import TARGETS
from tests.patience import HANG_LIMIT

PATIENCE = 20
GROWTH = 600 << 20
ADDRESSES = 3 << 30
RENEWED = 400
"""Cases after which the process is replaced by a fresh one."""
NAMED = {target.__name__: target for target in TARGETS}
OFTEN = {
    "weights": 2,
    "config": 2,
    "kinds": 1,
    "gguf": 2,
    "whisper": 1,
    "readers": 2,
    "measured": 2,
    "model_fields": 2,
    "run_fields": 2,
    "statistic_fields": 4,
    "column_fields": 2,
    "options": 4,
}
"""How often a target is taken of eight times; the others always are. Loading a model takes longest, and drawing a page."""


def chance_of(target: str, number: int) -> random.Random:
    """What a case draws from; it knows its number too, for targets that take things in their turn."""
    chance = random.Random(f"{target} {number}")
    chance.number = number
    return chance


def one_case(target: str, number: int, seeds: Path) -> str:
    """`answered`, `refused`, or what was raised."""
    from isoscope.core.errors import IsoscopeError

    chance = chance_of(target, number)
    with tempfile.TemporaryDirectory(prefix="isoscope-fuzz-") as work, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            NAMED[target](seeds, Path(work), chance)
            return "answered"
        except IsoscopeError as error:
            return hidden_bug(error) or ("refused" if str(error) else "an error without a word")
        except OSError as error:  # the command line makes a sentence of these
            return "refused" if error.errno and error.filename else _told(error)
        except BaseException as error:
            return _told(error)


def _told(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/isoscope/" in frame.filename] or [
        *traceback.extract_tb(error.__traceback__)
    ]
    last = frames[-1]
    return f"{type(error).__name__}: {str(error)[:400]!r} at {last.filename.rpartition('isoscope/')[2]}:{last.lineno}"


def _worker(pipe, seeds: str) -> None:
    """Cases from a pipe, answers into it, within limits."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)  # what C libraries print of damaged files
    one_case("weights", 0, Path(seeds))  # whatever is imported late counts as there
    _start_drawing()
    gc.collect()
    gc.freeze()
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (taken + ADDRESSES,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    high = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    while (case := pipe.recv()) is not None:
        said = one_case(*case, Path(seeds))
        now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if now - high > GROWTH:
            said = f"memory: {(now - high) >> 20} MB more, and then {said}"
        high = max(high, now)
        pipe.send(said)


def _start_drawing() -> None:
    """Start what draws, which reserves more addresses than a case may take, and have the page's script made, which is kept."""
    from isoscope.charts.print_chart import render_chart
    from isoscope.report.bundle import vega_script

    render_chart({"mark": "point", "data": {"values": []}}, "png")
    vega_script()


class Workers:
    """One process at a time; one that hangs or dies is replaced."""

    def __init__(self, seeds: Path) -> None:
        self.seeds, self.done = seeds, 0
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_worker, args=(theirs, str(self.seeds)))  # no daemon: it may start others
        self.process.start()
        theirs.close()
        self.done, self.fresh = 0, True

    def stop(self) -> None:
        self.process.kill()
        self.process.join()

    def _answers(self) -> bool:
        """Whether an answer comes before the process has worked for too long, or has waited as long as nothing on a busy machine does."""
        began, before = time.monotonic(), self._worked()
        patience = PATIENCE + (60 if self.fresh else 0)
        while time.monotonic() - began < HANG_LIMIT and self._worked() - before < patience:
            if self.pipe.poll(1):
                return True
        return False

    def _worked(self) -> float:
        """Seconds of the processor."""
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # its own and of what it started
        return 0.0

    def run(self, target: str, number: int) -> str:
        if self.done >= RENEWED:
            self.stop()
            self._start()
        self.done += 1
        self.pipe.send((target, number))
        try:
            if self._answers():
                self.fresh = False
                return str(self.pipe.recv())
            said = f"hangs: more than {PATIENCE} seconds of work"
        except EOFError:
            said = "dies"
        self.process.kill()
        self.process.join()
        said += f" (exit code {self.process.exitcode})"
        self._start()
        return said


def fuzz(seconds: float, seed: int, seeds: Path, only: list[str] | None = None, log=None) -> tuple[Counter, dict[str, str]]:
    """Cases for so many seconds, and at least one of each target: how many ended how, and the finds by case."""
    counts: Counter = Counter()
    finds: dict[str, str] = {}
    workers, first = Workers(seeds), seed * 10_000_000
    number = first
    workers.run("words", 0)  # the imports of the first process do not count
    end = time.monotonic() + seconds
    names = only or list(NAMED)
    try:
        while number == first or time.monotonic() < end:
            for name in names:
                if only is None and number % 8 >= OFTEN.get(name, 8):
                    continue
                said = workers.run(name, number)
                word = said if said in ("answered", "refused") else "finds"
                counts[f"{name} {word}"] += 1
                if word == "finds":
                    finds[f"{name}:{number}"] = said
                    if log:
                        print(f"{name}:{number}  {said}", file=log, flush=True)
                if number > first and time.monotonic() >= end:
                    break
            number += 1
    finally:
        workers.stop()
    return counts, finds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", help="one case again: target:number")
    parser.add_argument("--only", action="append", help="only this target; may be repeated")
    given = parser.parse_args()
    from tests.hostile.seeds import write_seeds

    with tempfile.TemporaryDirectory(prefix="isoscope-seeds-") as folder:
        seeds = Path(folder) / "seeds"
        write_seeds(seeds)
        if given.case:
            target, _, number = given.case.partition(":")
            NAMED[target](seeds, Path(tempfile.mkdtemp()), chance_of(target, int(number)))
            return
        started = time.monotonic()
        counts, finds = fuzz(given.seconds, given.seed, seeds, given.only, sys.stdout)
    for name, count in sorted(counts.items()):
        print(f"{name:24}{count:8,}")
    print(f"{sum(counts.values()):,} cases in {time.monotonic() - started:,.0f} s, {len(finds)} finds")
    raise SystemExit(bool(finds))


if __name__ == "__main__":
    main()
