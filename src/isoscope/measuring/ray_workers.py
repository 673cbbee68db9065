"""A Ray cluster that measures. Cells come back through its object store and only the driver writes, so no disk need be shared."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from isoscope.core.errors import IsoscopeError, import_optional
from isoscope.core.progress import without_hub_bars
from isoscope.measuring.machine import BASE_MEMORY
from isoscope.measuring.options import Options
from isoscope.measuring.ray_start import first_line, start_ray
from isoscope.measuring.task import LostError, Task, out_of_memory, run_task_in_worker
from isoscope.measuring.workers import WEIGHT_COPIES
from isoscope.models.naming.model_name import ModelReference, model_bytes, resolve_model
from isoscope.runs.run import Run

MAX_WRITING = 2
"""How many cells the driver holds at a time while it writes them."""
AHEAD = 1
"""Tasks beyond the room of the cluster, so that a node does not wait for the driver between two tasks."""

Files = dict[str, np.ndarray]


@dataclass(frozen=True)
class Needs:
    """The resources that one task takes from a node."""

    cpus: int
    gpus: int
    memory: int


class RayWorkers:
    """The nodes of a cluster for as long as the context lasts. Without an address, a local cluster is started, which ends with it."""

    def __init__(self, address: str | None, most: int | None, options: Options) -> None:
        self.address, self.most, self.options = address, most, options
        self._writing = threading.Semaphore(MAX_WRITING)
        self._running: dict[int, Any] = {}
        self._started_here = self._closed = False

    def __enter__(self) -> RayWorkers:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray = import_optional("ray", "--executor ray")
        if not ray.is_initialized():
            start_ray(self.address, self.most)
            self._started_here = True
        # No retries by Ray: `Retrying` tries again, and knows with which batch size.
        self._measure = ray.remote(max_retries=0)(_measure_on_node)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        import ray

        self._closed = True
        for reference in list(self._running.values()):
            with contextlib.suppress(Exception):
                ray.cancel(reference, force=True)
        if self._started_here:
            ray.shutdown()

    @property
    def count(self) -> int:
        """As many as the present nodes have room for, and one that waits. Nodes may come and go."""
        import ray

        resources, needs = ray.cluster_resources(), self._needs(0)
        room = int(resources.get("CPU", 1) // needs.cpus)
        if needs.gpus:
            room = min(room, int(resources.get("GPU", 0) // needs.gpus))
        return max(1, min(room, self.most or room)) + AHEAD * (self.most is None)

    def _needs(self, weights: int) -> Needs:
        import ray

        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        gpus = max((node.get("GPU", 0) for node in nodes), default=0)
        wants_gpu = self.options.device != "cpu" and not self.options.device.startswith(("mps", "xpu")) and gpus >= 1
        largest = max((node.get("memory", 0) for node in nodes), default=0)
        # A task that asks for more memory than the largest node has would wait forever.
        memory = min(BASE_MEMORY + WEIGHT_COPIES * weights, 0.9 * largest)
        return Needs(self.options.threads or 1, int(gpus if self.options.device_map else 1) * wants_gpu, int(memory))

    def submit(self, task: Task) -> Future[list[str]]:
        """Measure a cell on some node, and write it here."""
        outer: Future[list[str]] = Future()
        if self._closed:
            outer.set_exception(CancelledError())
            return outer
        needs = self._needs(model_bytes(task.reference))
        absolute = replace(task.reference, folder=task.reference.folder.absolute())  # a node has a current folder of its own
        portable = replace(task, reference=absolute, options=replace(task.options, threads=needs.cpus))
        remote_function = self._measure.options(num_cpus=needs.cpus, num_gpus=needs.gpus, memory=needs.memory, name=task.reference.name)
        reference = remote_function.remote(portable)
        self._running[id(outer)] = reference
        threading.Thread(target=self._receive, args=(reference, task, outer), daemon=True).start()
        return outer

    def _receive(self, reference: Any, task: Task, outer: Future[list[str]]) -> None:
        """Wait for a cell and write it. Only a few are in memory at a time, the others stay in the object store."""
        import ray
        from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

        try:
            ray.wait([reference], fetch_local=False)
            with self._writing:
                answer = ray.get(reference)
                if isinstance(answer, IsoscopeError):
                    raise answer
                files, warned = answer
                Run(task.run).receive_cell(task.key, files)
                del answer, files
            outer.set_result(warned)
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
            self._running.pop(id(outer), None)


def _measure_on_node(task: Task) -> tuple[Files, list[str]] | IsoscopeError:
    """Measure a cell on a node; return the bytes of its files and the texts of warnings. A user error is returned, not raised."""
    try:
        with tempfile.TemporaryDirectory(prefix="isoscope-") as place, without_hub_bars():
            warned = run_task_in_worker(replace(task, run=Path(place), reference=_find_on_node(task.reference)))
            folder = Path(place) / "cells" / task.key
            return {path.name: np.fromfile(path, dtype=np.uint8) for path in folder.iterdir()}, warned
    except IsoscopeError as error:
        return error


def _find_on_node(reference: ModelReference) -> ModelReference:
    """The model on this node: at the same path, or from the hub in the node's own cache."""
    if reference.folder.is_dir():
        return reference
    local = resolve_model(reference.spec)
    if local.weights != reference.weights:
        raise IsoscopeError(f"{reference.spec} is another model on this node; copy it to every node, or name a revision.")
    return replace(reference, folder=local.folder)
