"""Watching a training of the Hugging Face Trainer."""

# mypy: allow-subclassing-any
from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from isoscope.watching.watch import Watch


class WatchCallback(TrainerCallback):
    """`Trainer(…, callbacks=[isoscope.WatchCallback(every=100, data=probe)])`.

    Arguments are those of `isoscope.watch` but the model, the optimiser and `start`, which the Trainer has. The run goes to the folder
    `isoscope` in the Trainer's own, or to `out`.
    """

    def __init__(self, every: int = 100, data: Any = None, out: str | Path | None = None, **rest: Any) -> None:
        self.watch: Watch | None = None
        self._given = {"every": every, "data": data, **rest}
        self._out = out

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Measure before the first step."""
        out = Path(args.output_dir) / "isoscope" if self._out is None else self._out
        self.watch = Watch(model, out=out, start=state.global_step, **self._given)
        self.watch.__enter__()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        """Take gradients, which are gone when the step has ended."""
        if self.watch is not None:
            self.watch.before_step(optimizer)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Measure where it is time."""
        if self.watch is not None:
            self.watch.step(step=state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Take the loss, the mean since the Trainer last said it."""
        if self.watch is not None and logs and "loss" in logs:
            self.watch.note(state.global_step, training_loss=logs["loss"])

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Measure after the last step, and close."""
        if self.watch is not None:
            self.watch.__exit__(None, None, None)
