"""Ray that cannot be started or found: one sentence, soon, whatever the reason."""

import socket
import sys
import threading

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.measuring import ray_workers
from isoscope.measuring.ray_workers import _safe_job, start_ray
from tests.cli.calling import command, process
from tests.patience import run_process


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_an_address_where_nothing_listens(small_models, texts, tmp_path, form):
    address = form.format(closed_port())
    answer = process(
        "measure", small_models("bert"), "--data", texts, "--executor", "ray", "--address", address, "--out", tmp_path / "run", "-q"
    )
    answer.refused(f"No Ray cluster answers at {address}", "`ray start --head` starts one")
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", None], ids=["web", "closes", "silent"])
def test_an_address_where_something_else_listens(monkeypatch, answer):
    monkeypatch.setattr(ray_workers, "WAIT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = []

        def serve() -> None:
            connection = server.accept()[0]
            held.append(connection)
            if answer is not None:
                connection.recv(100)
                connection.sendall(answer)
                connection.close()

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(IsoscopeError, match=r"is not Ray; give the address|No Ray cluster answers at"):
            start_ray(f"127.0.0.1:{server.getsockname()[1]}", None)
        for connection in held:
            connection.close()


@pytest.mark.parametrize("address", ["not an address", "127.0.0.1:99999", "[::1", "http://127.0.0.1:80"])
def test_an_address_that_is_none(address):
    with pytest.raises(IsoscopeError, match=r"No Ray cluster answers at|--address takes HOST:PORT") as error:
        start_ray(address, None)
    assert "\n" not in str(error.value)


def test_a_cluster_that_cannot_be_started_here(small_models, texts, tmp_path):
    words = ["measure", small_models("bert"), "--data", texts, "--executor", "ray", "--out", tmp_path / "run", "-q"]
    (tmp_path / "file").touch()
    answer = process(*words, RAY_TMPDIR=str(tmp_path / "file" / "folder"))
    answer.refused("Ray cannot be started here: ", "leave --executor ray out")
    assert answer.err.count("\n") == 1


def test_a_cluster_that_has_no_memory_is_refused_before_ray_ends_the_process():
    """Under `ulimit -v` Ray's threads cannot be made, and its C++ code aborts."""
    program = (
        "import ray, resource\nfrom isoscope.measuring.ray_workers import start_ray\nfrom isoscope.core.errors import IsoscopeError\n"
        "resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))\n"
        "try:\n    start_ray(None, 1)\nexcept IsoscopeError as error:\n    print(error)\n"
    )
    done = run_process([sys.executable, "-c", program])
    assert done.returncode == 0, done.stderr
    assert "Ray would take 2 GB, and 0 GB are free; leave --executor ray out" in done.stdout


@pytest.mark.slow
def test_a_cluster_at_an_address_measures_the_folder_that_the_command_is_in(small_models, texts, tmp_path, monkeypatch):
    """The nodes have a current folder of their own."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    small = {"num_cpus": 1, "object_store_memory": 80 << 20, "memory": 4 << 30, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=small)
    try:
        options = ["--data", texts, "--max-items", "4", "--sample", "0", "--out", tmp_path / "run", "-q"]
        words = ["measure", ".", "--executor", "ray", "--address", cluster.address, *options]
        done = run_process(command(*words), cwd=small_models("bert"))
        assert done.returncode == 0, done.stderr
        assert len(list((tmp_path / "run" / "cells").iterdir())) == 1
    finally:
        cluster.shutdown()


def test_a_cluster_that_is_started_here_needs_no_runtime_environment():
    """With one, Ray starts workers through a shell that divides the path of Python at its spaces, and they never come."""
    assert not _safe_job(None)["job_config"].runtime_env
    assert _safe_job("10.0.0.1:6379")["job_config"].runtime_env == {"env_vars": {"PYTHONSAFEPATH": "1"}}
