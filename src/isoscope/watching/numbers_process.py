"""The process that computes the numbers of looks: `NumbersProcess` is the side of the training, `serve` what runs in the process.

It is a process and not a thread because a thread would compete for the interpreter with the training, at every call of a kernel.
It is started as a command, not by `multiprocessing`: that would run the user's script a second time, training included.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from multiprocessing.spawn import get_executable
from pathlib import Path
from typing import Any, BinaryIO

import isoscope
from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.watching.look import Entry, Outcome, Problem, Setting, surviving

MAX_WAITING, MAX_BYTES = 8, 1 << 28
"""The most looks, and the most bytes of statistics, that wait to be computed; beyond, the training waits. One look always may."""
LENGTH = struct.Struct("<Q")
START = "import sys; sys.path[:] = {path!r}; from isoscope.watching.numbers_process import serve; serve()"
THREADS = {f"{pool}_NUM_THREADS": "1" for pool in ("OMP", "OPENBLAS", "MKL", "NUMBA", "VECLIB_MAXIMUM")}
"""One thread: the other cores belong to the training."""


class NumbersProcess:
    """Takes entries in order and gives their outcomes in the same order. A process that died is replaced at the next entry."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: deque[tuple[int, int]] = deque()
        """Step and size of each entry without an outcome."""
        self._ready: list[Outcome] = []
        self.start()

    def start(self) -> None:
        """Start the process."""
        if getattr(sys, "frozen", False) or not get_executable():
            raise IsoscopeError("isoscope.watch starts a Python process, and there is no Python interpreter here (this program is frozen).")
        # Isolated: no module comes from the current folder, which may hold the code of an untrusted model, nor from PYTHON… variables.
        command = [os.fsdecode(get_executable()), "-I", "-c", START.format(path=_import_path())]
        # It uses no accelerator. A process group of its own: Ctrl-C reaches the training, which decides when this process ends.
        environment = os.environ | THREADS | {"CUDA_VISIBLE_DEVICES": ""}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
        self._process = subprocess.Popen(command, env=environment, process_group=0, **pipes)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to_send: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()
        self._received: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
        threading.Thread(target=_send_all, args=(self._process.stdin, self._to_send), daemon=True).start()
        threading.Thread(target=_receive_all, args=(self._process.stdout, self._received), daemon=True).start()
        self._to_send.put(_pack(self._setting))

    def submit(self, entry: Entry) -> None:
        """Hand an entry over. If too much is waiting, wait until there is room."""
        if self._process is None:
            self.start()
        message = _pack(entry)
        size = sum(len(part) for part in message)
        while self._waiting and (len(self._waiting) >= MAX_WAITING or sum(held for _, held in self._waiting) + size > MAX_BYTES):
            self._receive(wait=True)
            if self._process is None:
                self.start()
        self._waiting.append((entry.step, size))
        self._to_send.put(message)

    def take_outcomes(self, *, wait: bool = False) -> list[Outcome]:
        """The outcomes that are ready; `wait` for those of all entries."""
        while self._waiting and self._receive(wait=wait):
            pass
        ready, self._ready = self._ready, []
        return ready

    def _receive(self, *, wait: bool) -> bool:
        """Take one outcome in; return whether there was one."""
        try:
            outcome = self._received.get(block=wait)
        except queue.Empty:
            return False
        if outcome is None:
            self._ready += self._lose_waiting()
        else:
            self._waiting.popleft()
            self._setting = replace(self._setting, start=max(self._setting.start, outcome.step))
            self._ready.append(outcome)
        return True

    def _lose_waiting(self) -> list[Outcome]:
        """The outcomes of what was waiting when the process died."""
        assert self._process is not None
        steps, code = [step for step, _ in self._waiting], self._process.wait()
        self._waiting.clear()
        self._process = None
        self._to_send.put(None)
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        lost = IsoscopeError(f"the process that computes the numbers {how}; the next look starts another")
        text = f"The numbers of {'step' if len(steps) == 1 else 'steps'} {', '.join(map(str, steps))} were lost: {lost}."
        return [*(Outcome(step) for step in steps[:-1]), Outcome(steps[-1], problems=[Problem(steps[-1], "process", text, lost)])]

    def close(self) -> None:
        """Let the process end, when it has finished all entries."""
        if self._process is not None:
            self._to_send.put(None)
            self._process.wait()
            self._process = None


def _import_path() -> list[str]:
    """Where the process finds modules: where this one does, but not in the current folder, unless isoscope itself lies there."""
    own = str(Path(isoscope.__file__).resolve().parents[1])
    current = os.path.realpath(os.curdir)
    return [*(entry for entry in sys.path if entry and os.path.realpath(entry) != current), own]


def _pack(value: Any) -> list[Any]:
    """A value as parts to write one after the other: their number, their lengths, a pickle, and the bytes of its arrays uncopied."""
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(text), *(buffer.raw() for buffer in buffers)]
    return [b"".join(LENGTH.pack(size) for size in (len(parts), *(len(part) for part in parts))), *parts]


def _unpack(file: BinaryIO) -> Any:
    """The next value; None at the end, also if it comes in the middle of a value."""
    try:
        count = LENGTH.unpack(_read(file, LENGTH.size))[0]
        sizes = [size for (size,) in LENGTH.iter_unpack(_read(file, LENGTH.size * count))]
        text, *buffers = [_read(file, size) for size in sizes]
    except EOFError:
        return None
    return pickle.loads(text, buffers=buffers)


def _read(file: BinaryIO, size: int) -> bytearray:
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        got = file.readinto(view[at:])  # type: ignore[attr-defined]
        if not got:
            raise EOFError
        at += got
    return data


def _write(file: BinaryIO, parts: Iterable[Any]) -> None:
    for part in parts:
        view = memoryview(part)
        while len(view):
            view = view[file.write(view) :]


def _send_all(pipe: BinaryIO, messages: queue.SimpleQueue[list[Any] | None]) -> None:
    """Write messages into the pipe of the process until there is None. If it died, `_receive_all` notices."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError), pipe:
        while (message := messages.get()) is not None:
            _write(pipe, message)
        _write(pipe, _pack(None))  # not the end of the pipe alone: a forked child of the training may hold it open


def _receive_all(pipe: BinaryIO, outcomes: queue.SimpleQueue[Outcome | None]) -> None:
    """Read outcomes until the process ends; then None."""
    with pipe:
        while (outcome := _unpack(pipe)) is not None:
            outcomes.put(outcome)
    outcomes.put(None)


def serve() -> None:
    """Run in the process: answer every entry with its outcome, until the training closes the pipe or ends."""
    entries, outcomes = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever prints must not write between outcomes
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    setting: Setting = _unpack(entries)
    writer: Any = None
    news: dict[str, str] = {}
    _collect_warnings(news)
    while (entry := _unpack(entries)) is not None:
        outcome, problems = Outcome(entry.step), list[Problem]()
        with surviving(problems, entry.step, "process", f"The numbers of step {entry.step} were not computed"):
            if writer is None:
                from isoscope.watching.look_writer import LookWriter  # here, so that an error in a plugin is reported like any other

                writer = LookWriter(setting)
            outcome = writer.write(entry)
        problems = [_make_portable(problem) for problem in (*outcome.problems, *problems)]
        with contextlib.suppress(BrokenPipeError):  # the training was killed; what it handed over is finished all the same
            _write(outcomes, _pack(replace(outcome, problems=problems, news=outcome.news | news)))
        news.clear()


def _collect_warnings(news: dict[str, str]) -> None:
    """Put the texts of our own warnings into `news` from now on; others are printed as always."""
    show = warnings.showwarning

    def collect(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, IsoscopeWarning):
            news[str(message)] = str(message)
        else:
            show(message, category, *rest, **more)

    warnings.simplefilter("always", IsoscopeWarning)
    warnings.showwarning = collect


def _make_portable(problem: Problem) -> Problem:
    """The problem, with an exception of the same text if its own cannot be pickled, as that of a user's plugin may not."""
    try:
        twin = pickle.loads(pickle.dumps(problem.error))
        if type(twin) is type(problem.error) and str(twin) == str(problem.error):
            if not isinstance(problem.error, IsoscopeError):
                problem.error.add_note(problem.text)  # notes are pickled, and a traceback is not
            return problem
    except (pickle.PickleError, AttributeError, ImportError, TypeError, ValueError):
        pass
    kind = IsoscopeError if isinstance(problem.error, IsoscopeError) else RuntimeError
    return replace(problem, error=kind(str(problem.error)))
