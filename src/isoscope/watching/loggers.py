"""Where numbers of a watched step go beside the run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

import pandas as pd

from isoscope.core.errors import IsoscopeError, nearest

BUILT_IN = ("tensorboard",)
TAKES = "log takes 'tensorboard', or an object with log(step, values) and close(), or several"


@runtime_checkable
class Logger(Protocol):
    """Anything that takes numbers by name, step by step."""

    def log(self, step: int, values: dict[str, float]) -> None:
        """Take the numbers of one step."""

    def close(self) -> None:
        """No more will come."""


class TensorBoard:
    """Event files for TensorBoard."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise IsoscopeError("log='tensorboard' needs the package tensorboard; install it with pip install tensorboard.") from error
        self._writer = SummaryWriter(str(folder))

    def log(self, step: int, values: dict[str, float]) -> None:
        """Take the numbers of one step."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


def loggers(given: str | Logger | Iterable[str | Logger] | None, out: Path) -> list[Logger]:
    """Loggers from what a user says: a name, an object, several of them, or nothing."""
    if given is None:
        return []
    if isinstance(given, str):
        if given not in BUILT_IN:
            raise IsoscopeError(f"{TAKES}; got {given!r}{nearest(given, list(BUILT_IN)) or '.'}")
        return [TensorBoard(out / "tensorboard")]
    if isinstance(given, Logger):
        return [given]
    if isinstance(given, Iterable):
        return [logger for one in given for logger in loggers(one, out)]
    raise IsoscopeError(f"{TAKES}; got {type(given).__name__}.")


def named_values(rows: pd.DataFrame) -> dict[str, float]:
    """Rows as numbers by name, `metric/kind_layer`, over all tokens; of heads their mean. What has no layer is of the training."""
    rows = rows[rows["policy"].eq("all") & rows["value"].notna()]
    means = rows.groupby(["metric", "kind", "layer"], sort=False, dropna=False)["value"].mean().reset_index()
    return {
        f"training/{metric}" if pd.isna(layer) else f"{metric}/{kind}_{int(layer):02d}": float(value)
        for metric, kind, layer, value in zip(*(means[column] for column in means), strict=True)
    }
