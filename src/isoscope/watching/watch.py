"""`isoscope.watch`: measure a model every N steps of any training loop, without changing the training."""

from __future__ import annotations

import atexit
import os
import sys
import time
import warnings
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn

from isoscope.core.errors import IsoscopeError, IsoscopeWarning, nearest
from isoscope.core.wording import format_duration
from isoscope.measuring.module_feeder import STACK, Feed, ModuleFeeder
from isoscope.measuring.options import OF_A_MODULE, options_from
from isoscope.runs.results import Results
from isoscope.runs.run import Run
from isoscope.watching.collapse import Limits
from isoscope.watching.loggers import Logger, open_loggers
from isoscope.watching.look import Entry, Look, Problem, Setting, TrainingNumber, surviving
from isoscope.watching.numbers_process import NumbersProcess
from isoscope.watching.probe import LEAN, Probe
from isoscope.watching.projections import gradient_norms
from isoscope.watching.ranks import OtherRankError, OtherRankUserError, Ranks
from isoscope.watching.sharded import class_name
from isoscope.watching.untouched import keep_random_states, leave_untouched, unwrap_model

LIBRARIES = ("isoscope", "torch", "transformers", "accelerate", "lightning", "pytorch_lightning")
"""Packages whose lines a warning does not point at."""


class Watch:
    """Watch a model that is being trained: a context in which `step()` is called after each step of the optimiser.

    Args:
        model: a `torch.nn.Module`; it may be wrapped by DDP or `torch.compile`, or divided by FSDP2. Then every process watches it.
        every: measure each time after this many steps; also before the first and after the last.
        data: the probe: a batch as the model is called with it (a tensor, a tuple of arguments, a dict of them), or a list of batches.
            It is copied, and every watched step measures the same data.
        out: the run's folder, for `isoscope report` to read at any time.
        optimizer: if given, the learning rate and the gradients of queries and keys are read just before each of its watched steps.
        log: `wandb`, `trackio`, `mlflow`, `tensorboard`, or an object with `log(step, values)` and `close()`, or several.
        name: the name of the model in the table; by default its class.
        seed: the seed of the training, for the table.
        start: the number of the step before the first, if training is resumed.
        feed: `feed(module, batch)` runs a batch; by default the module is called with it.
        blocks: the paths of the model's blocks, as in `layers.*`; by default the largest repeated structure.
        limits: when to warn of collapse: `rank`, `cosine`, `entropy`.
        options: those of `isoscope.measure` with a module: `layers`, `channels`, `taps`, `sample`, `store`, …
    """

    def __init__(
        self,
        model: nn.Module,
        every: int = 100,
        data: Any = None,
        out: str | Path = "isoscope-run",
        *,
        optimizer: Any = None,
        log: str | Logger | Iterable[str | Logger] | None = None,
        name: str | None = None,
        seed: int | None = None,
        start: int = 0,
        feed: Feed | None = None,
        blocks: str | None = None,
        limits: Mapping[str, float] | None = None,
        **options: Any,
    ) -> None:
        for option in options:
            if option not in OF_A_MODULE:
                raise IsoscopeError(f"There is no option {option!r} of a watch{nearest(option, list(OF_A_MODULE)) or '.'}")
        if not isinstance(every, int) or every < 1:
            raise IsoscopeError(f"every is the number of steps from one measurement to the next, 1 or more; got {every!r}.")
        self.module = unwrap_model(model)
        self.every, self.at, self.seed = every, start, seed
        self.name = name or class_name(self.module)
        self.seconds = 0.0
        """How long the training has waited for looks; their numbers are computed in another process meanwhile."""
        self.warnings: list[str] = []
        """All warnings so far: collapse, and looks that failed, with their tracebacks."""
        self._run, self._ranks = Run(out), Ranks()
        self._writes = self._ranks.rank == 0
        """Whether this process writes. All processes of a training look."""
        self._gradients: dict[tuple[str, int], float] = {}
        self._rate: float | None = None
        self._asked = self._closed = False
        self._loss: float | Tensor | None = None
        self._measured: int | None = None
        self._numbers: list[TrainingNumber] = []
        self._problems: list[Problem] = []
        self._failures: list[tuple[int, str]] = []
        """Numbers and problems that no entry has taken along yet; failures are problems that were put into words for the user."""
        self._events: deque[tuple[int, dict[str, float] | None]] = deque()
        """What loggers are to get, in order: the values of a note, or None for an entry whose values are still computed."""
        self._values: deque[dict[str, float]] = deque()
        self._warned: set[str] = set()
        self._news: dict[str, str] = {}
        self._hook: Any = None
        self._process: NumbersProcess | None = None
        self._loggers: list[Logger] = []
        plain, own_limits = _plain_optimizer(optimizer), Limits.of(limits)
        with keep_random_states():
            feeder = ModuleFeeder(self.module, self.name, options_from(LEAN | options), feed, blocks)
            self._probe = Probe(feeder, data, self._ranks, attention_is_asked_for="taps" in options)
            if self._writes:
                self._run.prepare()
                self._loggers = open_loggers(log, self._run.path)
                path = self._run.path.absolute()  # the training may change the current folder
                self._process = NumbersProcess(Setting(path, feeder.columns(None, seed=seed), STACK, start, own_limits))
        atexit.register(self._close_at_exit, os.getpid())
        if plain is not None:
            self._hook = plain.register_step_pre_hook(lambda *_: self.before_step(plain))

    def __repr__(self) -> str:
        measured = "not measured yet" if self._measured is None else f"last measured at step {self._measured:,}"
        cost = f"every {self.every:,} steps, {format_duration(self.seconds)} so far" if self.seconds else f"every {self.every:,} steps"
        lines = [f"Watch of {self.name}: step {self.at:,}, {measured}, {cost}", *(f"  warning: {text}" for text in self.warnings)]
        return "\n".join([*lines, f"  isoscope report {self._run.path}"])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def __enter__(self) -> Self:
        if self._measured is None:
            try:
                self._measure()
            except BaseException:
                self.close()
                raise
            self._warn()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # After an error the model may be in the middle of a step: its numbers would belong to no step.
        if kind is None and self._measured != self.at:
            self._measure()
        self.close()

    def before_step(self, optimizer: Any = None) -> None:
        """Read the gradients and the learning rate, between the backward pass and the step; `watch(optimizer=…)` calls this by itself."""
        self._asked = True
        with surviving(self._problems, self.at, "gradients", f"Gradients and learning rate of step {self.at + 1} were not read"):
            if self._is_due(self.at + 1):
                self._gradients = gradient_norms(self._probe.projections)
                self._rate = None if optimizer is None else float(optimizer.param_groups[0]["lr"])
        self._warn()

    def step(self, loss: float | Tensor | None = None, *, step: int | None = None) -> None:
        """Note that the optimiser took a step, and measure if it is time; `step` is its number if the loop counts otherwise."""
        due = False
        with surviving(self._problems, self.at, "step", f"The call of step after step {self.at} was not understood"):
            self.at = self.at + 1 if step is None else int(step)
            # Kept as a tensor: float() would make the accelerator finish its queue at every step, watched or not.
            self._loss = loss.detach() if isinstance(loss, Tensor) else loss
            due = self._is_due(self.at)
        if due:
            self._measure()
        self._take_outcomes()
        self._warn()

    def _is_due(self, step: int) -> bool:
        """Whether a multiple of `every` was reached since the last look; a loop may count by more than one."""
        return not self._closed and step // self.every > (self._measured or 0) // self.every

    def note(self, step: int, **numbers: float) -> None:
        """Put numbers of the training into the run and the loggers, whether the step is watched or not."""
        if self._writes:
            with surviving(self._problems, self.at, "note", f"The numbers {', '.join(numbers)} of step {step} were not kept"):
                noted = [TrainingNumber(step, name, float(value)) for name, value in numbers.items()]
                self._numbers += noted
                self._events.append((step, {f"training/{number.metric}": number.value for number in noted}))
            self._take_outcomes()
            self._warn()

    def results(self) -> Results:
        """The run so far, with the numbers of all looks that were taken."""
        self._take_outcomes(wait=True)
        self._warn()
        return Results(self._run.path)

    def close(self) -> None:
        """Wait for the numbers of all looks, write the rest of the diary and let go of the model."""
        self._closed = True
        atexit.unregister(self._close_at_exit)
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        self._take_outcomes(wait=True)
        loggers, self._loggers = self._loggers, []
        for logger in loggers:
            with surviving(self._problems, self.at, "close", f"{type(logger).__name__} was not closed"):
                logger.close()
        if self._process is not None:
            self._submit(Entry(self.at))  # with all that is left for the diary
            self._take_outcomes(wait=True)
            self._process.close()
            self._process = None
        self._ranks.part()
        self._warn()

    def _close_at_exit(self, process: int) -> None:
        """Close a watch that was left open, unless this is a fork of the training's process."""
        if os.getpid() == process:
            self.close()

    def _measure(self) -> None:
        """Measure one watched step. Only the first may raise; later ones report the problem, and the training continues."""
        started, step, first = time.monotonic(), self.at, self._measured is None
        if first:
            with keep_random_states():
                self._ranks.meet({"every": self.every, "step": step} | self._probe.terms(), self._probe.fingerprint())
        problems: list[Problem] = []
        look: Look | None = None
        with surviving(problems, step, "look", f"The look at step {step} failed"), leave_untouched(self.module):
            with surviving(problems, step, "look", f"Step {step} was not measured"):
                look = self._probe.look(step, self.seed)
            with surviving(problems, step, "training", f"The numbers of the training at step {step} were not kept"):
                self._add_training_numbers(step)
        self._news |= self._probe.notes
        self._problems += problems
        if self._process is not None:
            with surviving(self._problems, step, "process", f"The numbers of step {step} were not computed"):
                self._submit(Entry(step, look))
                self._events.append((step, None))
        else:
            self._numbers = []  # rank 0 writes them
        if first:
            problems += [*self._problems, *self._take_outcomes(wait=True)]
            self._ranks.attempt(lambda: self._raise_first(problems))
        self._measured = step
        self.seconds += time.monotonic() - started

    def _raise_first(self, problems: list[Problem]) -> None:
        if problems:
            self._news, self._problems = {}, []
            raise problems[0].error

    def _add_training_numbers(self, step: int) -> None:
        """Note loss, learning rate and gradients of a step."""
        # Taken out first: if this fails, the next look must not report the numbers of this step as its own.
        gradients, rate, loss = self._gradients, self._rate, self._loss
        self._gradients, self._rate, self._loss = {}, None, None
        if not self._asked and self._measured is not None:  # no optimiser was given: the gradients that there are now
            gradients = gradient_norms(self._probe.projections)
        for (kind, layer), value in gradients.items():
            note = self._probe.projections[kind, layer][0].note
            self._numbers.append(TrainingNumber(step, "gradient_norm", value, kind, layer, note))
        if rate is not None:
            self._numbers.append(TrainingNumber(step, "learning_rate", rate))
        if loss is not None:
            self._numbers.append(TrainingNumber(step, "training_loss", float(loss)))

    def _submit(self, entry: Entry) -> None:
        """Hand an entry to the process, with all numbers and failures since the last one."""
        assert self._process is not None
        self._put_into_words()
        numbers, self._numbers = self._numbers, []
        failures, self._failures = self._failures, []
        self._process.submit(replace(entry, numbers=numbers, failures=failures))

    def _put_into_words(self) -> None:
        """Turn new problems into news for the user and failures for the diary."""
        for problem in self._problems:
            # Of what went wrong in another process, that one and the writing one tell the user.
            if self._writes or not isinstance(problem.error, OtherRankError | OtherRankUserError):
                self._news.setdefault(problem.kind, problem.text)
            if self._writes:
                self._failures.append((problem.step, problem.text))
        self._problems.clear()

    def _take_outcomes(self, *, wait: bool = False) -> list[Problem]:
        """Take in outcomes, of all entries with `wait`, and give loggers their numbers in the order in which they arose.

        Returns:
            What went wrong in the process.
        """
        outcomes = [] if self._process is None else self._process.take_outcomes(wait=wait)
        problems = [problem for outcome in outcomes for problem in outcome.problems]
        for outcome in outcomes:
            self._news = outcome.news | self._news  # the first of a kind is what the user gets to see
            self._values.append(outcome.values)
        for problem in problems:
            self._news.setdefault(problem.kind, problem.text)
        if self._events and (self._values or self._events[0][1] is not None):
            with keep_random_states():  # a logger may draw, too
                while self._events and (self._values or self._events[0][1] is not None):
                    step, noted = self._events.popleft()
                    self._log(step, self._values.popleft() if noted is None else noted)
        return problems

    def _log(self, step: int, values: dict[str, float]) -> None:
        for logger in self._loggers:
            with surviving(self._problems, step, f"log {type(logger).__name__}", f"{type(logger).__name__} did not take step {step}"):
                logger.log(step, values)

    def _warn(self) -> None:
        """Issue new warnings, each kind once. No look is under way now, so a warning that is turned into an error disturbs none."""
        self._put_into_words()
        news, self._news = self._news, {}
        for kind, words in news.items():
            if kind not in self._warned:
                self._warned.add(kind)
                self.warnings.append(words)
                warnings.warn(words, IsoscopeWarning, stacklevel=_find_caller())


def _find_caller() -> int:
    """The `stacklevel` of the user's own line: the first that is neither ours nor of a library that calls us."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in LIBRARIES:
        level, frame = level + 1, frame.f_back
    return level


def _plain_optimizer(optimizer: Any) -> torch.optim.Optimizer | None:
    """The optimiser, or the one that accelerate has wrapped."""
    plain = getattr(optimizer, "optimizer", optimizer)
    if plain is not None and not isinstance(plain, torch.optim.Optimizer):
        raise IsoscopeError(f"optimizer is a torch.optim.Optimizer; got {type(optimizer).__name__}.")
    return plain


watch = Watch
