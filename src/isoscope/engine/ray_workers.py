"""A Ray cluster that measures: cells come back through its object store, and only the driver writes, so that no disk is shared."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.extras import import_optional
from isoscope.engine.options import Options
from isoscope.engine.ray_start import first_line, start_ray
from isoscope.engine.task import LostError, Task, out_of_memory, recorded
from isoscope.engine.workers import COPIES, ROOM
from isoscope.models.reference import ModelReference, resolve, weight
from isoscope.store.run import Run

ARRIVING = 2
"""Cells that the driver holds at a time while it writes them."""
AHEAD = 1
"""Tasks beyond what the cluster has room for, so that a node does not wait for the driver between two."""

Files = dict[str, np.ndarray]


@dataclass(frozen=True)
class Needs:
    """What one task takes of a node."""

    cpus: int
    gpus: int
    memory: int


class RayWorkers:
    """The nodes of a cluster, for as long as the context lasts; without an address, one that is started here and ends with it."""

    def __init__(self, address: str | None, most: int | None, options: Options) -> None:
        self.address, self.most, self.options = address, most, options
        self._writing = threading.Semaphore(ARRIVING)
        self._underway: dict[int, Any] = {}
        self._mine = self._closed = False

    def __enter__(self) -> RayWorkers:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray = import_optional("ray", "--executor ray")
        if not ray.is_initialized():
            start_ray(self.address, self.most)
            self._mine = True
        # What a node that is gone took with it is asked for again by whoever waits, who knows with which batch.
        self._measure = ray.remote(max_retries=0)(_measured)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        import ray

        self._closed = True
        for reference in list(self._underway.values()):
            with contextlib.suppress(Exception):
                ray.cancel(reference, force=True)
        if self._mine:
            ray.shutdown()

    @property
    def count(self) -> int:
        """As many as the nodes that are there now have room for, and one that waits; nodes may come and go."""
        import ray

        has, needs = ray.cluster_resources(), self._needs(0)
        fit = int(has.get("CPU", 1) // needs.cpus)
        if needs.gpus:
            fit = min(fit, int(has.get("GPU", 0) // needs.gpus))
        return max(1, min(fit, self.most or fit)) + AHEAD * (self.most is None)

    def _needs(self, weights: int) -> Needs:
        import ray

        there = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        gpus = max((node.get("GPU", 0) for node in there), default=0)
        wants = self.options.device != "cpu" and not self.options.device.startswith(("mps", "xpu")) and gpus >= 1
        room = max((node.get("memory", 0) for node in there), default=0)  # what no node has would wait forever
        return Needs(
            self.options.threads or 1, int(gpus if self.options.device_map else 1) * wants, int(min(ROOM + COPIES * weights, 0.9 * room))
        )

    def submit(self, task: Task) -> Future[list[str]]:
        """Measure a cell on some node, and write it here when it arrives."""
        outer: Future[list[str]] = Future()
        if self._closed:
            outer.set_exception(CancelledError())
            return outer
        needs = self._needs(weight(task.reference))
        named = replace(task.reference, folder=task.reference.folder.absolute())  # a node has a current folder of its own
        alone = replace(task, reference=named, options=replace(task.options, threads=needs.cpus))
        chosen = self._measure.options(num_cpus=needs.cpus, num_gpus=needs.gpus, memory=needs.memory, name=task.reference.name)
        reference = chosen.remote(alone)
        self._underway[id(outer)] = reference
        threading.Thread(target=self._arrive, args=(reference, task, outer), daemon=True).start()
        return outer

    def _arrive(self, reference: Any, task: Task, outer: Future[list[str]]) -> None:
        """Wait for a cell and write it; only so many are held at a time, the others stay in the object store."""
        import ray
        from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

        try:
            ray.wait([reference], fetch_local=False)
            with self._writing:
                found = ray.get(reference)
                if isinstance(found, IsoscopeError):
                    raise found
                files, said = found
                Run(task.run).receive(task.key, files)
                del found, files
            outer.set_result(said)
        except OutOfMemoryError:
            outer.set_exception(out_of_memory(task.reference.name))
        except RayTaskError as error:
            outer.set_exception(error.cause if isinstance(error.cause, Exception) else error)
        except RayError as error:
            outer.set_exception(
                CancelledError()
                if self._closed
                else LostError(f"The node that measured {task.reference.name} is gone: {first_line(error)}.")
            )
        except BaseException as error:
            outer.set_exception(error)
        finally:
            self._underway.pop(id(outer), None)


def _measured(task: Task) -> tuple[Files, list[str]] | IsoscopeError:
    """On a node: a cell as the bytes of its files, and what was warned of; a mistake comes back as it is, without a traceback."""
    try:
        with tempfile.TemporaryDirectory(prefix="isoscope-") as place, _quietly():
            here = replace(task, run=Path(place), reference=_on_this_node(task.reference))
            said = recorded(here)
            folder = Path(place) / "cells" / task.key
            return {path.name: np.fromfile(path, dtype=np.uint8) for path in folder.iterdir()}, said
    except IsoscopeError as error:
        return error


def _on_this_node(reference: ModelReference) -> ModelReference:
    """The model where this node has it: at the same path, or from the hub into the node's own cache."""
    if reference.folder.is_dir():
        return reference
    found = resolve(reference.spec)
    if found.weights != reference.weights:
        raise IsoscopeError(f"{reference.spec} is another model on this node; copy it to every node, or name a revision.")
    return replace(reference, folder=found.folder)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without the hub's bars: nobody sees them."""
    before = os.environ.get("HF_HUB_DISABLE_PROGRESS_BARS")
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("HF_HUB_DISABLE_PROGRESS_BARS")
