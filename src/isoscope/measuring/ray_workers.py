"""A Ray cluster that measures. Cells come back through its object store and only the driver writes, so no disk need be shared.

Its workers import nothing from the current folder, and a cluster that cannot be reached or started is one sentence.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import tempfile
import threading
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from isoscope.core.errors import IsoscopeError, first_line, import_optional
from isoscope.core.machine import SAFE_PATH, check_room, cores, hide_current_folder
from isoscope.core.progress import without_hub_bars
from isoscope.measuring.cost_estimate import BASE_MEMORY, WEIGHT_COPIES
from isoscope.measuring.options import Options
from isoscope.measuring.task import LostError, Task, out_of_memory, run_task_in_worker
from isoscope.models.naming.model_name import ModelReference, model_bytes, resolve_model
from isoscope.runs.run import Run

MAX_WRITING = 2
"""How many cells the driver holds at a time while it writes them."""
AHEAD = 1
"""Tasks beyond the room of the cluster, so that a node does not wait for the driver between two tasks."""
WAIT = 10.0
"""A cluster must answer within this many seconds. Ray itself would try for minutes."""
START_ROOM = 2 << 30
"""Bytes that Ray's own processes need; with less, Ray's C++ code ends this process instead of raising an error."""
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The first bytes of a gRPC client: the preface of HTTP/2 and an empty frame of settings."""

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
        # Finished cells wait in Ray's object store, which may spill to disk, and not in the driver's memory.
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
        # No retries by Ray: the scheduler tries again, and knows with which batch size.
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
        """The number of tasks that the present nodes have room for, plus one that waits. Nodes may come and go."""
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
        needs = self._needs(model_bytes(task.reference))
        absolute = replace(task.reference, folder=task.reference.folder.absolute())  # a node has a current folder of its own
        portable = replace(task, reference=absolute, options=replace(task.options, threads=needs.cpus))
        remote_function = self._measure.options(num_cpus=needs.cpus, num_gpus=needs.gpus, memory=needs.memory, name=task.reference.name)
        reference = remote_function.remote(portable)
        self._running[id(outer)] = reference
        threading.Thread(target=self._receive, args=(reference, task, outer), daemon=True).start()
        return outer

    def _receive(self, reference: Any, task: Task, outer: Future[list[str]]) -> None:
        """Wait for a cell and write it. Only a few cells are in memory at a time; the others stay in the object store."""
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


def start_ray(address: str | None, most: int | None) -> None:
    """Connect to the cluster at an address, or start one here with room for `most` tasks."""
    import ray

    if address:
        _check_answer(address)
        local: dict[str, Any] = {}
    else:
        check_room("Ray", START_ROOM, "leave --executor ray out, or use --address with a cluster elsewhere")
        local = {"num_cpus": max(cores(), most or 1), "include_dashboard": False}
    try:
        with hide_current_folder():
            ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **_safe_job(address), **local)
    except Exception as error:  # Ray has no type for this: a node that did not start in time is a bare Exception
        if address:
            raise IsoscopeError(f"No Ray cluster answers at {address} ({first_line(error)}); `ray start --head` starts one.") from error
        raise IsoscopeError(
            f"Ray cannot be started here: {first_line(error)}; check free memory and Ray's folder (RAY_TMPDIR), "
            "or leave --executor ray out."
        ) from error


def _check_answer(address: str) -> None:
    """Refuse an address at which no Ray cluster answers. Ray itself checks names without a port, such as `auto`."""
    try:
        place = urlsplit(address if "://" in address else f"//{address}")
        host, port = place.hostname, place.port
    except ValueError as error:
        raise IsoscopeError(f"--address takes HOST:PORT, ray://HOST:PORT or auto; got {address!r}.") from error
    if not host or not port or place.scheme not in ("", "ray"):
        return
    try:
        with socket.create_connection((host, port), WAIT) as connection:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            connection.sendall(HELLO)
            answer = connection.recv(9)
    except OSError as error:
        raise IsoscopeError(f"No Ray cluster answers at {address} ({error}); `ray start --head` starts one.") from error
    if answer[3:4] != b"\x04":  # a server of HTTP/2 begins with its settings, frame type 4
        raise IsoscopeError(f"The server at {address} is not Ray; give the address that `ray start --head` printed.")


def _safe_job(address: str | None) -> dict[str, Any]:
    """Options for a job whose workers search neither the driver's current folder nor their own for modules."""
    # Workers of a cluster that is started here inherit the variable. Workers of another cluster get it in a runtime environment, but
    # only those: with a runtime environment Ray starts workers through a shell, which splits the path of Python at its spaces.
    environment = {"env_vars": {SAFE_PATH: "1"}} if address else None
    if address and address.startswith("ray://"):
        return {"runtime_env": environment}  # its driver runs on the head, in the head's own folder
    from ray.job_config import JobConfig

    class SafeJob(JobConfig):  # type: ignore[misc]
        def _runtime_env_has_working_dir(self) -> bool:
            """Ray puts the driver's current folder on each worker's `sys.path` unless the job ships a folder of its own."""
            return True

    return {"job_config": SafeJob(runtime_env=environment)}
