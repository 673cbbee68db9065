"""Loggers: where the numbers of a watch go besides the run. Each tracker is imported when it is asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

from isoscope.core.errors import IsoscopeError, import_optional, nearest

PROJECT = "isoscope"
"""The project or experiment of a tracker, where neither a run is open nor the tracker's own variable names one."""
STEP = "isoscope/step"
"""The horizontal axis in Weights & Biases, whose own steps belong to the user's calls."""
BATCH = 1000
"""The most numbers that MLflow takes in one request."""


@runtime_checkable
class Logger(Protocol):
    """Anything that takes numbers by name, step by step."""

    def log(self, step: int, values: dict[str, float]) -> None:
        """Take the numbers of one step."""

    def close(self) -> None:
        """Close the logger; no more numbers follow."""


class TensorBoard:
    """Event files for TensorBoard, in the folder `tensorboard` of the run."""

    def __init__(self, out: Path) -> None:
        import_optional("tensorboard", "log='tensorboard'")
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(out / "tensorboard"))

    def log(self, step: int, values: dict[str, float]) -> None:
        """Take the numbers of one step."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class WeightsAndBiases:
    """The open run of Weights & Biases, or a new one."""

    def __init__(self, out: Path) -> None:
        wandb = import_optional("wandb", "log='wandb'")
        self._own = wandb.run is None
        self._run = wandb.init(project=os.environ.get("WANDB_PROJECT", PROJECT), dir=str(out)) if self._own else wandb.run
        self._run.define_metric(STEP, hidden=True)
        self._defined: set[str] = set()

    def log(self, step: int, values: dict[str, float]) -> None:
        """Take the numbers of one step."""
        for name in values.keys() - self._defined:
            self._run.define_metric(name, step_metric=STEP)
        self._defined |= values.keys()
        # A call without a step ends the current row and counts it. Where the user gives steps, and has given this one or a later one, that
        # could make the next of them too small, and its numbers would be dropped. So ours then join the row that is open.
        row = {} if self._own or self._run.step <= step else {"step": self._run.step}
        self._run.log(values | {STEP: step}, **row)

    def close(self) -> None:
        """Finish the run, unless it is the user's."""
        if self._own:
            self._run.finish()


class Trackio:
    """The open run of trackio, or a new one."""

    def __init__(self, out: Path) -> None:
        trackio = import_optional("trackio", "log='trackio'")
        open_run = trackio.context_vars.current_run.get()
        self._own = open_run is None
        self._run = trackio.init(project=os.environ.get("TRACKIO_PROJECT", PROJECT)) if self._own else open_run
        self._finish = trackio.finish

    def log(self, step: int, values: dict[str, float]) -> None:
        """Take the numbers of one step."""
        self._run.log(values, step=step)

    def close(self) -> None:
        """Finish the run, unless it is the user's."""
        if self._own:
            self._finish()


class MLflow:
    """The active run of MLflow, or a new one. Numbers are sent in the background."""

    def __init__(self, out: Path) -> None:
        self._mlflow = mlflow = import_optional("mlflow", "log='mlflow'")
        self._client, active = mlflow.MlflowClient(), mlflow.active_run()
        self._own = active is None
        # Not `start_run`, which would make it the active run: the user may start one of their own.
        self._id = active.info.run_id if active else self._client.create_run(self._find_experiment()).info.run_id

    def _find_experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        known = self._client.get_experiment_by_name(name)
        return str(known.experiment_id if known else self._client.create_experiment(name))

    def log(self, step: int, values: dict[str, float]) -> None:
        """Take the numbers of one step."""
        now, kind = int(time.time() * 1000), self._mlflow.entities.Metric
        metrics = [kind(name, value, now, step) for name, value in values.items()]
        for at in range(0, len(metrics), BATCH):
            self._client.log_batch(self._id, metrics=metrics[at : at + BATCH], synchronous=False)

    def close(self) -> None:
        """Wait until all is sent, and end the run, unless it is the user's."""
        self._mlflow.flush_async_logging()
        if self._own:
            self._client.set_terminated(self._id)


TRACKERS: dict[str, Callable[[Path], Logger]] = {
    "mlflow": MLflow,
    "tensorboard": TensorBoard,
    "trackio": Trackio,
    "wandb": WeightsAndBiases,
}
TAKES = f"log takes {', '.join(TRACKERS)}, or an object with log(step, values) and close(), or several"


def open_loggers(log: str | Logger | Iterable[str | Logger] | None, out: Path) -> list[Logger]:
    """The loggers that a user asks for: by name, as an object, several of them, or none."""
    if log is None:
        return []
    if isinstance(log, str):
        if log not in TRACKERS:
            raise IsoscopeError(f"{TAKES}; got {log!r}{nearest(log, list(TRACKERS)) or '.'}")
        return [TRACKERS[log](out)]
    if isinstance(log, Logger):
        return [log]
    if isinstance(log, Iterable):
        return [logger for entry in log for logger in open_loggers(entry, out)]
    raise IsoscopeError(f"{TAKES}; got {type(log).__name__}.")
