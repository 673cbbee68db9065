"""Suites, and clusters of simulated nodes, that several files of tests measure."""

import pytest

import isoscope
from tests.measuring.sweeps import FEW
from tests.models.suite_hub import suite


@pytest.fixture(scope="module")
def text(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("text") / "few.txt"
    path.write_text("\n\n".join(texts.read_text("utf-8").split("\n\n")[:10]), "utf-8")
    return str(path)


@pytest.fixture(scope="module")
def berts(tmp_path_factory):
    return suite(tmp_path_factory.mktemp("berts") / "berts", "bert", [0, 2, 4, 6], [0, 1])


@pytest.fixture(scope="module")
def expected(berts, text, tmp_path_factory):
    return isoscope.sweep(str(berts), text, tmp_path_factory.mktemp("one") / "run", processes=1, **FEW).table(policy="every")


@pytest.fixture
def three_nodes(monkeypatch):
    """A cluster of three simulated nodes, each with a process of its own for its part of Ray."""
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    small = {"num_cpus": 1, "object_store_memory": 80 << 20, "memory": 4 << 30, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=small)
    others = [cluster.add_node(**small) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    yield cluster, others
    ray.shutdown()
    cluster.shutdown()
