"""Start Ray here or connect to a cluster. Its workers import nothing from the current folder, and a failure is one sentence."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any
from urllib.parse import urlsplit

from isoscope.core.errors import IsoscopeError
from isoscope.core.memory import check_room
from isoscope.measuring.machine import cores
from isoscope.measuring.safe_start import SAFE_PATH, hide_current_folder

WAIT = 10.0
"""A cluster must answer within this many seconds. Ray itself would try for minutes."""
START_ROOM = 2 << 30
"""Bytes that Ray's own processes need; with less, Ray's C++ code ends this process instead of raising an error."""
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The first bytes of a gRPC client: the preface of HTTP/2 and an empty frame of settings."""


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


def first_line(error: BaseException) -> str:
    """The first line of an error from Ray."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
