"""Watching a training of the Hugging Face Trainer or of Lightning. Either library is imported when its callback is used."""

from __future__ import annotations

import functools
import importlib
import sys
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.watching.loggers import TRACKERS
from isoscope.watching.watch import Watch


class Hooks:
    """A watch that begins and ends with the training of a trainer."""

    def __init__(self, every: int = 100, data: Any = None, out: str | Path | None = None, **rest: Any) -> None:
        self.watch: Watch | None = None
        self._options = {"every": every, "data": data, **rest}
        self._out = out

    def _begin(self, model: Any, folder: str | Path, step: int) -> None:
        out = Path(folder) / "isoscope" if self._out is None else self._out
        self.watch = Watch(model, out=out, start=step, **self._options)
        self.watch.__enter__()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Measure after the last step, and close."""
        if self.watch is not None:
            self.watch.__exit__(None, None, None)


class TrainerHooks(Hooks):
    """`Trainer(…, callbacks=[isoscope.WatchCallback(every=100, data=probe)])`.

    The arguments are those of `isoscope.watch` except the model, the optimiser and `start`, which the Trainer has. The run goes to the
    folder `isoscope` in the Trainer's own, or to `out`. Without `log`, numbers go to the trackers that the Trainer reports to.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Measure before the first step."""
        self._options.setdefault("log", [name for name in args.report_to if name in TRACKERS])
        self._begin(model, args.output_dir, state.global_step)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        """Take gradients, which are gone when the step has ended."""
        if self.watch is not None:
            self.watch.before_step(optimizer)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Measure if it is time."""
        if self.watch is not None:
            self.watch.step(step=state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Take the loss: its mean since the Trainer last logged it."""
        if self.watch is not None and logs and "loss" in logs:
            self.watch.note(state.global_step, training_loss=logs["loss"])


class LightningHooks(Hooks):
    """`Trainer(callbacks=[isoscope.LightningWatch(every=100, data=probe)])`.

    The arguments are those of `isoscope.watch` except the model, the optimiser and `start`, which the Trainer has. The run goes to the
    folder `isoscope` in the Trainer's own, or to `out`. The LightningModule is called with the probe; `feed` may call a part of it.
    """

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Measure before the first step."""
        self._begin(pl_module, trainer.default_root_dir, trainer.global_step)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Take gradients, before they are clipped."""
        if self.watch is not None:
            self.watch.before_step(optimizer)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Measure if it is time; a batch between two steps of the optimiser is no step."""
        if self.watch is not None and trainer.global_step != self.watch.at:
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            # Lightning divides the loss by the number of batches whose gradients it accumulates.
            self.watch.step(None if loss is None else loss * trainer.accumulate_grad_batches, step=trainer.global_step)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Close."""
        if self.watch is not None:
            self.watch.close()


@functools.cache
def _make_callback(name: str) -> Any:
    """A callback of the package that the user trains with, under its public name."""
    if name == "WatchCallback":
        from transformers import TrainerCallback

        return type(name, (TrainerHooks, TrainerCallback), {"__doc__": TrainerHooks.__doc__})
    # Lightning goes by two names, whose classes differ; the one that is imported already is the user's.
    for package in sorted(["lightning.pytorch", "pytorch_lightning"], key=lambda package: package not in sys.modules):
        try:
            base = importlib.import_module(package).Callback
        except ModuleNotFoundError:
            continue
        return type(name, (LightningHooks, base), {"__doc__": LightningHooks.__doc__})
    raise IsoscopeError("isoscope.LightningWatch needs Lightning; install it with pip install lightning.")


def __getattr__(name: str) -> Any:
    if name in ("WatchCallback", "LightningWatch"):
        return _make_callback(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
