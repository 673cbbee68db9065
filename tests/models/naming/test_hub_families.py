"""A hub on loopback serves a small model of every architecture; one command measures them all through the real client."""

import os
import re

import pytest

from isoscope.runs.results import Results
from tests.cli.calling import command
from tests.models.loading.test_family import expected_sites
from tests.models.loopback_hub import LoopbackHub
from tests.models.zoo import ZOO, build
from tests.patience import run_process

ONE_A_FAMILY = list({small.family: small for small in reversed(ZOO)}.values())


def repository(small):
    return "org/" + re.sub(r"[^a-z0-9]+", "-", small.title.lower()).strip("-")


def measure(hub, folder, models, sources):
    """The command as a user would give it; what it says, and the run."""
    few = ["--max-items", 4, "--seq-len", 32, "--sample", 0, "--threads", 1, "--store", "rows"]
    given = [word for source in sources.values() for word in ("--data", source)]
    environment = {**os.environ, **hub.environment(folder / "home")}
    ended = run_process(
        command("measure", *models, *given, *few, "--out", folder / "run"),
        env={name: value for name, value in environment.items() if value is not None},
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stderr, Results(folder / "run")


def served_and_measured(smalls, folder, sources):
    with LoopbackHub() as hub:
        for small in smalls:
            hub.add(repository(small), revisions={"v1": build(small, folder / repository(small))})
        models = [f"{repository(small)}@v1" for small in smalls]
        _, results = measure(hub, folder, models, sources)
        assert hub.fetched()["model.safetensors"] == len(smalls)
        table = results.table("mean_norm", policy="all")
        hidden = table[table["kind"].isin(["hidden", "final"])]
        assert set(table["model"]) == {repository(small) for small in smalls}
        for small in smalls:
            mine = hidden[hidden["model"] == repository(small)]
            found = zip(mine["stack"], mine["kind"], mine["layer"], strict=True)
            assert sorted(found) == sorted(expected_sites(small.sites)), small.title
            assert set(mine["family"]) == {small.family}
            assert set(mine["revision"]) == {hub.commit(repository(small), "v1")}
        hub.requests.clear()
        said, again = measure(hub, folder, models, sources)
        assert said.count("already measured") == len(smalls)
        assert not hub.fetched()
        assert again.table("mean_norm", policy="all").equals(table)


def test_one_command_measures_every_family_from_a_hub(tmp_path, data):
    served_and_measured(ONE_A_FAMILY, tmp_path, data)


@pytest.mark.slow
def test_one_command_measures_every_architecture_from_a_hub(tmp_path, data):
    served_and_measured(ZOO, tmp_path, data)
