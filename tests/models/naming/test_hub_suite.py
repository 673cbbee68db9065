"""Checkpoints on the hub: those it lists, and those in its cache."""

import pytest
from huggingface_hub import constants

from isoscope.core.errors import IsoscopeError
from isoscope.models.naming.hub_models import HubName
from isoscope.models.naming.hub_suite import delete_from_cache, is_cached
from isoscope.models.naming.model_name import resolve_model
from isoscope.models.naming.suite import open_suite
from tests.models.suite_hub import SuiteHub, network, save, training


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A whole model in a folder."""
    return save(network("bert"), tmp_path_factory.mktemp("model") / "bert")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub that lists, and this process comes to it."""
    with SuiteHub() as found:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        for name, value in found.environment(tmp_path / "home").items():
            monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
        yield found


def places(suite):
    return [(one.seed, one.step) for one in suite.checkpoints]


def refused(*pieces, **given):
    with pytest.raises(IsoscopeError) as error:
        open_suite(**given)
    said = str(error.value)
    assert "\n" not in said
    assert said[-1] in ".?"
    for piece in pieces:
        assert piece in said, said


def test_the_hub_lists_revisions_and_repositories(hub, model):
    hub.add("org/pythia", model, dict.fromkeys(("step0", "step16", "step2", "stepping", "step4-tokens1B"), model))
    for seed in (0, 1):
        for step in (0, 20):
            hub.add(f"org/multi-seed_{seed}-step_{step}k", model)
    hub.add("org/multi-seed_0-intermediate", model)
    assert [one.spec for one in open_suite("org/pythia@step{step}").checkpoints] == [f"org/pythia@step{step}" for step in (0, 2, 16)]
    assert [one.spec for one in open_suite("org/pythia@step{step}-tokens*B").checkpoints] == ["org/pythia@step4-tokens1B"]
    assert places(open_suite("org/multi-seed_{seed}-step_{step}k")) == [(0, 0), (0, 20_000), (1, 0), (1, 20_000)]
    assert places(open_suite("org/multi-seed_{seed}-step_{step}k", seeds="1")) == [(1, 0), (1, 20_000)]
    for seed in (1, 2):
        hub.add(f"org/poly-seed{seed}", revisions={f"step{step}": model for step in (0, 8 * seed)})
    assert places(open_suite("org/poly-seed{seed}@step{step}", seeds="1-2")) == [(1, 0), (1, 8), (2, 0), (2, 16)]
    refused("give --seeds", spec="org/poly-seed{seed}@step{step}")
    assert not hub.fetched()
    refused("The hub lists nothing that is called org/pythia@at{step}", "--steps", spec="org/pythia@at{step}")
    refused("it does not exist", spec="org/nothing@step{step}")
    hub.down = 503
    refused("503", "try again later", spec="org/pythia@step{step}")


def test_a_deleted_commit_leaves_files_that_others_share(hub, tmp_path):
    """Two revisions share their tokenizer and configuration; deleting one leaves the other whole."""
    revisions = {f"step{step}": save(model, tmp_path / f"step{step}") for step, model in training("bert", [0, 1])}
    hub.add("org/pythia", revisions=revisions)
    first, second = resolve_model("org/pythia@step0"), resolve_model("org/pythia@step1")
    name = HubName.parse("org/pythia@step0")
    assert is_cached(name)
    before = len(list((tmp_path / "home").rglob("blobs/*")))
    delete_from_cache(name, first.revision)
    assert not first.folder.exists()
    assert not is_cached(name)
    assert before - len(list((tmp_path / "home").rglob("blobs/*"))) == 1  # the weights
    hub.requests.clear()
    assert resolve_model("org/pythia@step1") == second
    assert not hub.fetched()
    delete_from_cache(HubName.parse("org/pythia@step1"), second.revision)
    assert not list((tmp_path / "home").rglob("blobs/*"))
