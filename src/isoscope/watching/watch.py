"""`isoscope.watch`: measure a model every N steps of any training loop, without changing the training."""

from __future__ import annotations

import contextlib
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn

from isoscope.core.errors import IsoscopeError, IsoscopeWarning, nearest
from isoscope.core.table import TABLE_COLUMNS, make_table
from isoscope.core.wording import format_duration
from isoscope.measuring.module_feeder import Feed, ModuleFeeder
from isoscope.measuring.options import OF_A_MODULE, options_from
from isoscope.runs.results import Results
from isoscope.runs.run import Run
from isoscope.watching.collapse import Alarm, Limits
from isoscope.watching.diary import Diary, Logger, name_values, open_loggers
from isoscope.watching.probe import LEAN, Probe
from isoscope.watching.projections import gradient_norms
from isoscope.watching.untouched import keep_random_states, leave_untouched, unwrap_model


class Watch:
    """Watch a model that is being trained: a context in which `step()` is called after each step of the optimiser.

    Args:
        model: a `torch.nn.Module`, wrapped by DDP or `torch.compile` or not.
        every: measure each time after this many steps; also before the first and after the last.
        data: the probe: a batch as the model is called with it (a tensor, a tuple of arguments, a dict of them), or a list of batches.
            It is copied, and every watched step measures the same data.
        out: the run's folder, for `isoscope report` to read at any time.
        optimizer: if given, the learning rate and the gradients of queries and keys are read just before each of its watched steps.
        log: `tensorboard`, or an object with `log(step, values)` and `close()`, or several.
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
        self.module, self.active = unwrap_model(model)
        self.every, self.at, self.seed = every, start, seed
        self.name = name or type(self.module).__name__
        self.seconds = 0.0
        """How long all looks at the model have taken."""
        self.warnings: list[str] = []
        """All warnings so far: collapse, and looks that failed, with their tracebacks."""
        self._run, self._alarm = Run(out), Alarm(Limits.of(limits))
        self._gradients: dict[tuple[str, int], float] = {}
        self._rate: float | None = None
        self._asked = False
        self._loss: float | Tensor | None = None
        self._measured: int | None = None
        self._written = start
        self._warned: set[str] = set()
        self._news: dict[str, str] = {}
        self._may_raise = False
        self._hook: Any = None
        self._loggers: list[Logger] = []
        with keep_random_states():
            feeder = ModuleFeeder(self.module, self.name, options_from(LEAN | options), feed, blocks)
            self._probe = Probe(feeder, data, attention_is_asked_for="taps" in options)
            if self.active:
                self._run.prepare()
                self._diary = Diary(self._run, feeder.columns(None, seed=seed), start)
                self._loggers = open_loggers(log, self._run.path)
        if self.active and optimizer is not None:
            self._hook = _hook_optimizer(optimizer, self.before_step)

    def __repr__(self) -> str:
        measured = "not measured yet" if self._measured is None else f"last measured at step {self._measured:,}"
        cost = f"every {self.every:,} steps, {format_duration(self.seconds)} so far" if self.seconds else f"every {self.every:,} steps"
        lines = [f"Watch of {self.name}: step {self.at:,}, {measured}, {cost}", *(f"  warning: {text}" for text in self.warnings)]
        return "\n".join([*lines, f"  isoscope report {self._run.path}"])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def __enter__(self) -> Self:
        if self.active and self._measured is None:
            try:
                self._measure()
            except BaseException:
                self.close()
                raise
            self._warn()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # After an error the model may be in the middle of a step: its numbers would belong to no step.
        if kind is None and self.active and self._measured != self.at:
            self._measure()
        self.close()

    def before_step(self, optimizer: Any = None) -> None:
        """Read the gradients and the learning rate, between the backward pass and the step; `watch(optimizer=…)` calls this by itself."""
        self._asked = True
        with self._surviving("gradients", f"Gradients and learning rate of step {self.at + 1} were not read"):
            if self._due(self.at + 1):
                self._gradients = gradient_norms(self._probe.projections)
                self._rate = None if optimizer is None else float(optimizer.param_groups[0]["lr"])
        self._warn()

    def step(self, loss: float | Tensor | None = None, *, step: int | None = None) -> None:
        """Note that the optimiser took a step, and measure if it is time; `step` is its number if the loop counts otherwise."""
        due = False
        with self._surviving("step", f"The call of step after step {self.at} was not understood"):
            self.at = self.at + 1 if step is None else int(step)
            # Kept as a tensor: float() would make the accelerator finish its queue at every step, watched or not.
            self._loss = loss.detach() if isinstance(loss, Tensor) else loss
            due = self._due(self.at)
        if due:
            self._measure()
        self._warn()

    def _due(self, step: int) -> bool:
        """Whether a multiple of `every` was reached since the last look; a loop may count by more than one."""
        return self.active and step // self.every > (self._measured or 0) // self.every

    def note(self, step: int, **numbers: float) -> None:
        """Put numbers of the training into the run and the loggers, whether the step is watched or not."""
        if self.active:
            with self._surviving("note", f"The numbers {', '.join(numbers)} of step {step} were not kept"), keep_random_states():
                values = {name: float(value) for name, value in numbers.items()}
                for name, value in values.items():
                    self._diary.add(step, name, value)
                self._log(step, {f"training/{name}": value for name, value in values.items()})
            self._warn()

    def results(self) -> Results:
        """The run so far."""
        return Results(self._run.path)

    def close(self) -> None:
        """Write the rest of the diary and let go of the model."""
        self._may_raise = False
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        if self.active:
            self._keep_diary()
        for logger in self._loggers:
            with self._surviving("close", f"{type(logger).__name__} was not closed"):
                logger.close()
        self._loggers = []
        self._warn()

    def _measure(self) -> None:
        """Measure one watched step. Only the first may raise; later ones report the problem, and the training continues."""
        started, step = time.monotonic(), self.at
        self._may_raise = self._measured is None
        with self._surviving("look", f"The look at step {step} failed"), leave_untouched(self.module):
            self._look(step)
        self._may_raise, self._measured = False, step
        self.seconds += time.monotonic() - started

    def _look(self, step: int) -> None:
        """Measure, and hand the numbers on; if a part fails, the others are still done."""
        rows = make_table([], TABLE_COLUMNS)
        with self._surviving("look", f"Step {step} was not measured"):
            rows = self._probe.look(self._run, step, self.seed)
            self._written = step
        self._news |= self._probe.notes
        with self._surviving("training", f"The numbers of the training at step {step} were not kept"):
            self._training(step)
        with self._surviving("alarm", f"Signs of collapse were not looked for at step {step}"):
            for sign in self._alarm.find_collapse(step, rows):
                kind = "attention" if sign.kind == "entropy" else "hidden"
                self._diary.add(step, f"collapse_{sign.kind}", sign.value, kind=kind, layer=sign.layer, note=sign.sentence)
                self._news[sign.kind] = sign.sentence
        self._log(step, name_values(rows) | name_values(self._diary.at(step)))
        self._keep_diary()

    def _training(self, step: int) -> None:
        """Put loss, learning rate and gradients of a step into the diary."""
        # Taken out first: if this fails, the next look must not report the numbers of this step as its own.
        gradients, rate, loss = self._gradients, self._rate, self._loss
        self._gradients, self._rate, self._loss = {}, None, None
        if not self._asked and self._measured is not None:  # no optimiser was given: the gradients that there are now
            gradients = gradient_norms(self._probe.projections)
        for (kind, layer), value in gradients.items():
            self._diary.add(step, "gradient_norm", value, kind=kind, layer=layer, note=self._probe.projections[kind, layer][0].note)
        if rate is not None:
            self._diary.add(step, "learning_rate", rate)
        if loss is not None:
            self._diary.add(step, "training_loss", float(loss))

    def _keep_diary(self) -> None:
        """Write the diary."""
        with self._surviving("diary", "The numbers of the training were not written"):
            self._diary.write(self._written)

    def _log(self, step: int, values: dict[str, float]) -> None:
        for logger in self._loggers:
            with self._surviving(f"log {type(logger).__name__}", f"{type(logger).__name__} did not take step {step}"):
                logger.log(step, values)

    @contextlib.contextmanager
    def _surviving(self, part: str, words: str) -> Iterator[None]:
        """Report an exception in this part of a look instead of raising it, unless it is the first look.

        Anything but a user error keeps its traceback: a bug must look like one, even if it must not end a training.
        """
        try:
            yield
        except Exception as error:  # not KeyboardInterrupt, not SystemExit: these are meant to end a training
            if self._may_raise:
                raise
            text = f"{words}: {error}"
            if not isinstance(error, IsoscopeError):
                text = f"{words} ({type(error).__name__}: {error}); the training continues.\n{traceback.format_exc()}"
            self._diary.add_failure(self.at, text)
            self._news.setdefault(f"{part} {type(error).__name__}", text)

    def _warn(self) -> None:
        """Issue new warnings, each kind once. No look is under way now, so a warning that is turned into an error disturbs none."""
        news, self._news = self._news, {}
        for kind, words in news.items():
            if kind not in self._warned:
                self._warned.add(kind)
                self.warnings.append(words)
                warnings.warn(words, IsoscopeWarning, stacklevel=3)


def _hook_optimizer(optimizer: Any, before: Callable[[Any], None]) -> Any:
    """Have `before` called at each step of an optimiser, or of the one that accelerate has wrapped."""
    plain = getattr(optimizer, "optimizer", optimizer)
    if not isinstance(plain, torch.optim.Optimizer):
        raise IsoscopeError(f"optimizer is a torch.optim.Optimizer; got {type(optimizer).__name__}.")
    return plain.register_step_pre_hook(lambda *_: before(plain))


watch = Watch
