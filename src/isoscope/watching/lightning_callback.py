"""Watching a training of Lightning, which is imported when it is used."""

from __future__ import annotations

import functools
import importlib
import sys
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.watching.watch import Watch


class Hooks:
    """`Trainer(callbacks=[isoscope.LightningWatch(every=100, data=probe)])`.

    Arguments are those of `isoscope.watch` but the model, the optimiser and `start`, which the Trainer has. The run goes to the folder
    `isoscope` in the Trainer's own, or to `out`. The LightningModule is called with the probe; `feed` may call a part of it.
    """

    def __init__(self, every: int = 100, data: Any = None, out: str | Path | None = None, **rest: Any) -> None:
        self.watch: Watch | None = None
        self._given = {"every": every, "data": data, **rest}
        self._out = out

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Measure before the first step."""
        out = Path(trainer.default_root_dir) / "isoscope" if self._out is None else self._out
        self.watch = Watch(pl_module, out=out, start=trainer.global_step, **self._given)
        self.watch.__enter__()

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Take gradients, before they are clipped."""
        if self.watch is not None:
            self.watch.before_step(optimizer)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Measure where it is time; batches between two steps of the optimiser are none."""
        if self.watch is not None and trainer.global_step != self.watch.at:
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            whole = None if loss is None else loss * trainer.accumulate_grad_batches  # Lightning divides it by as much
            self.watch.step(whole, step=trainer.global_step)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Measure after the last step, and close."""
        if self.watch is not None:
            self.watch.__exit__(None, None, None)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Close."""
        if self.watch is not None:
            self.watch.close()


@functools.cache
def _callback() -> Any:
    """The hooks as a Callback of the package that the user trains with: Lightning goes by two names, whose classes differ."""
    names = ["lightning.pytorch", "pytorch_lightning"]
    for name in sorted(names, key=lambda name: name not in sys.modules):
        try:
            package = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        return type("LightningWatch", (Hooks, package.Callback), {"__doc__": Hooks.__doc__})
    raise IsoscopeError("isoscope.LightningWatch needs Lightning; install it with pip install lightning.")


def __getattr__(name: str) -> Any:
    if name == "LightningWatch":
        return _callback()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
