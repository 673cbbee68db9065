"""Which checkpoints a suite has, wherever they are; what is asked for and not there; what is wrong with them."""

import json
import shutil

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from isoscope.core.errors import IsoscopeError
from isoscope.models.audit import Seen, faults, hashes, holes
from isoscope.models.hub import HubName
from isoscope.models.load import load
from isoscope.models.reference import resolve
from isoscope.models.suite import Checkpoint, Suite, open_suite, open_suites
from isoscope.models.suites.hub import forget, in_cache
from isoscope.models.suites.names import step_in
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


def touched(root, *paths):
    for path in paths:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir() if not place.suffix else place.write_bytes(b"")
    return root


def refused(*pieces, **given):
    with pytest.raises(IsoscopeError) as error:
        open_suite(**given)
    said = str(error.value)
    assert "\n" not in said
    assert said[-1] in ".?"
    for piece in pieces:
        assert piece in said, said


LAYOUTS = {
    "train": (["seed-1/step-0", "seed-1/step-20", "seed-0/step-0", "training.json"], [(0, 0), (1, 0), (1, 20)]),
    "trainer": (["checkpoint-1000", "checkpoint-500", "tmp-checkpoint-1000", "runs/events.pt", "config.json"], [(None, 500), (None, 1000)]),
    "lightning": (
        ["lightning_logs/version_0/checkpoints/epoch=0-step=100.ckpt", "lightning_logs/version_0/checkpoints/last.ckpt"],
        [(None, 100)],
    ),
    "states": (["step_100.pt", "step_20.pt", "optimizer_step_100.pt", "config.json"], [(None, 20), (None, 100)]),
    "tensors": (["model_step=7.safetensors", "512.safetensors", ".step_9.safetensors"], [(None, 7), (None, 512)]),
    "multiberts": (["multiberts-seed_3-step_20k", "multiberts-seed_3-step_0k"], [(3, 0), (3, 20_000)]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_a_folder(tmp_path, layout):
    names, expected = LAYOUTS[layout]
    suite = open_suite(str(touched(tmp_path / layout, *names)))
    assert suite.name == layout
    assert places(suite) == expected


@pytest.mark.parametrize(
    ("name", "step"), [("step100", 100), ("global_step12", 12), ("iter-5", 5), ("epoch=3", None), ("footstep-3x", None), ("ckpt_9", 9)]
)
def test_steps_in_names(name, step):
    assert step_in(name) == (None if step is None else (step, step))


def test_steps_and_seeds_are_chosen_and_what_is_named_must_be_there(tmp_path):
    root = touched(
        tmp_path / "suite", *(f"seed-{seed}/step-{step}" for seed in (0, 1, 2) for step in (0, 10, 20, 30) if (seed, step) != (1, 20))
    )
    assert places(open_suite(str(root), steps="10-30:10", seeds="0-1")) == [(0, 10), (0, 20), (0, 30), (1, 10), (1, 30)]
    assert open_suite(str(root), steps="10-30:10", seeds="0-1").absent == ((1, 20),)
    assert open_suite(str(root), steps="10-30", seeds="0-1").absent == ()  # a range is what is there
    assert open_suite(str(root), steps="0", seeds="0,7").absent == ((7, 0),)
    refused("none of the checkpoints", "0, 10, 20, 30", spec=str(root), steps="7")


def test_a_pattern_of_paths(tmp_path):
    touched(tmp_path, *(f"multi-seed_{seed}-step_{step}k" for seed in (0, 1) for step in (0, 20)), "multi-seed_0-step_xk")
    suite = open_suite(f"{tmp_path}/multi-seed_{{seed}}-step_{{step}}k", steps="20", seeds="0-1")
    assert (suite.name, places(suite)) == ("multi", [(0, 20_000), (1, 20_000)])
    assert suite.checkpoints[1].spec == f"{tmp_path}/multi-seed_1-step_20k"


def test_a_pattern_whose_fields_touch_and_a_name_with_brackets(tmp_path):
    """What a shell would read otherwise stands for itself, all but a star; two of those are one."""
    root = tmp_path / "run[1]?"
    touched(root, "a5-step10", "b5-step20")
    for pattern in ("*{seed}-step{step}", "**{seed}-step{step}", "***{seed}-*{step}"):
        assert places(open_suite(f"{root}/{pattern}")) == [(5, 10), (5, 20)]
    touched(tmp_path / "whole", "s[7]-10", "s[7]-20", "s7-30")
    assert places(open_suite(f"{tmp_path}/whole/s[7]-{{step}}")) == [(None, 10), (None, 20)]
    refused("", spec=f"{tmp_path}/whole/{{step}}{{seed}}x")


def test_patterns_of_the_hub_need_no_hub_where_steps_are_given():
    suite = open_suite("google/multiberts-seed_{seed}-step_{step}k", steps="0,20,40-80:20", seeds="0-1")
    assert suite.name == "google/multiberts"
    assert places(suite) == [(seed, step * 1000) for seed in (0, 1) for step in (0, 20, 40, 60, 80)]
    assert suite.checkpoints[6] == Checkpoint("google/multiberts-seed_1-step_20k", 20_000, 1)
    pythia = open_suite("EleutherAI/pythia-70m@step{step}", steps="0,1-8:x2")
    assert pythia.name == "EleutherAI/pythia-70m"
    assert [one.spec.partition("@")[2] for one in pythia.checkpoints] == ["step0", "step1", "step2", "step4", "step8"]


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


def test_bad_suites_are_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "empty").mkdir()
    refused("holds no checkpoints", "checkpoint-500", spec=str(tmp_path / "empty"))
    refused("neither a folder", spec="EleutherAI/pythia-70m")
    refused("has {stpe}", spec="org/name@step{stpe}")
    refused("{step} once", spec="org/name-{seed}", seeds="1")
    refused("HF_HUB_OFFLINE", "--steps", spec="org/name@step{step}")
    refused("no seeds", spec="org/name@step{step}", steps="1", seeds="0")
    refused("no folder or file", spec=f"{tmp_path}/step{{step}}")
    refused("got 'x'", spec="org/name@step{step}", steps="0,x")
    refused("low to high", spec="org/name@step{step}", steps="9-1")
    refused("how far apart", spec="org/name@step{step}", steps="0-143000")
    refused("times 2 or more", spec="org/name@step{step}", steps="0-8:x2")
    refused("names none", spec="org/name@step{step}", steps=",")
    refused("both step 1 of", spec=str(touched(tmp_path / "twice", "step_1.pt", "step-1")))
    refused("embedded suite 'nothing'" if open_embedded() else "No suite comes with", spec="embedded:nothing")
    with pytest.raises(IsoscopeError, match="Two suites are called twins"):
        open_suites([str(touched(tmp_path / place / "twins", "step-1", "step-2")) for place in ("a", "b")])


def open_embedded():
    try:
        return open_suites(["embedded"])
    except IsoscopeError:
        return []


def test_files_of_weights_beside_one_configuration(tmp_path, model):
    """A Lightning checkpoint, a plain state dict and safetensors load to the same numbers as the folder they are from."""
    plain = network("bert", 3)
    inner = {"state_dict": {f"net.{name}": value for name, value in plain.state_dict().items()}, "epoch": 1, "optimizer_states": []}
    root = tmp_path / "files"
    shutil.copytree(model, root, ignore=shutil.ignore_patterns("*.safetensors"))
    deep = root / "lightning_logs" / "version_0" / "checkpoints"
    deep.mkdir(parents=True)
    torch.save(inner, deep / "epoch=0-step=5.ckpt")
    torch.save(plain.state_dict(), root / "step_6.pt")
    plain.save_pretrained(tmp_path / "saved")
    save_file(load_file(tmp_path / "saved" / "model.safetensors"), root / "step_7.safetensors")
    suite = open_suite(str(root))
    assert places(suite) == [(None, 5), (None, 6), (None, 7)]
    tokens = torch.arange(5, 15)[None]
    expected = plain.eval()(tokens).logits
    for one in suite.checkpoints:
        found = load(resolve(one.spec), device="cpu")
        assert torch.equal(found.whole(tokens).logits, expected), one
        assert len(found.processor("the of and")["input_ids"]) == 5
    shutil.copy(root / "step_6.pt", root / "step_8.pt")
    assert resolve(str(root / "step_8.pt")).weights == resolve(str(root / "step_6.pt")).weights  # the name says nothing
    torch.save(plain.state_dict(), root / "step_9.pt")
    assert hashes(resolve(str(root / "step_9.pt")).folder) == hashes(resolve(str(root / "step_6.pt")).folder)  # nor does the archive


def test_a_folder_of_a_step_takes_tokenizer_and_configuration_from_above(tmp_path, model):
    root = tmp_path / "trainer"
    shutil.copytree(model, root)
    network("bert", 1).save_pretrained(root / "checkpoint-5")
    found = load(resolve(str(root / "checkpoint-5")), device="cpu")
    assert len(found.processor("the of and")["input_ids"]) == 5
    whole = save(network("bert", 1), tmp_path / "whole")
    assert torch.equal(next(found.whole.parameters()), next(load(resolve(str(whole)), device="cpu").whole.parameters()))
    (root / "checkpoint-5" / "config.json").unlink()
    assert load(resolve(str(root / "checkpoint-5")), device="cpu").whole.config.hidden_size == 32
    shutil.copytree(root / "checkpoint-5", root / "another")
    with pytest.raises(IsoscopeError, match=r"another has no config\.json"):
        resolve(str(root / "another"))


def test_hashes_are_of_tensors_and_tell_matrices_from_the_rest(tmp_path, model):
    whole, matrices = hashes(model)
    again = tmp_path / "shards"
    network("bert").save_pretrained(again, max_shard_size="20KB")
    assert len(list(again.glob("*.safetensors"))) > 1
    assert hashes(again) == (whole, matrices)
    weights = load_file(model / "model.safetensors")
    weights["bert.encoder.layer.0.output.dense.bias"][3] += 1
    (tmp_path / "moved").mkdir()
    save_file(weights, tmp_path / "moved" / "model.safetensors")
    moved = hashes(tmp_path / "moved")
    assert moved[0] != whole
    assert moved[1] == matrices


def seen(*entries):
    return [Seen(seed, step, tensors, matrices) for seed, step, tensors, matrices in entries]


def of(places):
    return Suite("net", tuple(Checkpoint("", step, seed) for seed, step in places))


def test_what_is_wrong_is_said():
    sound = [(None, 0), (None, 1), (None, 2), (None, 4)]
    assert faults(of(sound), seen(*((seed, step, f"t{step}", f"m{step}") for seed, step in sound))) == []
    found = faults(of(sound), seen((None, 0, "a", "m"), (None, 1, "b", "n"), (None, 2, "b", "n"), (None, 4, "c", "m")))
    assert found == [
        "net: the steps 1 and 2 hold the same weights, bit for bit: one was saved in the place of another.",
        "net, step 4: every matrix is that of step 0, bit for bit: re-initialised, or never trained.",
    ]
    two = [(0, 0), (0, 5), (0, 9), (1, 0), (1, 5), (1, 9)]
    same = seen((0, 0, "i", "i"), (0, 5, "a", "a"), (0, 9, "b", "b"), (1, 0, "i", "i"), (1, 5, "a", "a"), (1, 9, "c", "c"))
    assert faults(of(two), same) == [
        "net: step 5 of seed 0 and step 5 of seed 1 hold the same weights, bit for bit: one was saved in the place of another."
    ]


def test_missing_steps_are_said_once():
    lacking = [(0, 0), (0, 5), (0, 9), (1, 0), (1, 5), (1, 9), (2, 0), (2, 5)]
    assert faults(of(lacking), []) == ["net, seed 2: step 9 is missing, which other seeds have."]
    sparse = [(0, 0), (0, 5), (0, 9), (1, 0), (1, 9), (2, 9)]  # of other seeds only the ends were kept
    assert faults(of(sparse), []) == []
    assert faults(of([(None, step) for step in (0, 100, 200, 400, 500)]), []) == ["net: step 300 is missing, by the spacing of the others."]
    suite = Suite("net", of([(0, 1)]).checkpoints, absent=((0, 2),))
    assert faults(suite, [Seen(0, 1, problem="It is damaged.")]) == [
        "net, seed 0, step 1, was not measured: It is damaged.",
        "net, seed 0, step 2, was asked for and is not there.",
    ]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([0, 20, 40, 60, 100, 120], [80]),
        ([0, 1, 2, 4, 8, 32, 64], [16]),
        ([1, 2, 4, 8, 16, 32], []),
        ([0, 1, 2, 3, 5, 8, 13, 21], []),  # log-spaced, rounded
        ([0, 1, 2, 5, 10, 20, 50, 100], []),
        ([*range(0, 200, 20), *range(200, 2001, 100)], []),  # two distances
        ([0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, *range(1000, 144000, 1000)], []),
        ([0, 10], []),
        ([7], []),
    ],
)
def test_holes_in_a_grid_are_found_and_not_imagined(steps, expected):
    assert holes(steps) == expected


def test_a_commit_is_forgotten_and_what_others_share_stays(hub, tmp_path):
    """Two revisions share their tokenizer and configuration; deleting one leaves the other whole."""
    revisions = {f"step{step}": save(model, tmp_path / f"step{step}") for step, model in training("bert", [0, 1])}
    hub.add("org/pythia", revisions=revisions)
    first, second = resolve("org/pythia@step0"), resolve("org/pythia@step1")
    name = HubName.parse("org/pythia@step0")
    assert in_cache(name)
    before = len(list((tmp_path / "home").rglob("blobs/*")))
    forget(name, first.revision)
    assert not first.folder.exists()
    assert not in_cache(name)
    assert before - len(list((tmp_path / "home").rglob("blobs/*"))) == 1  # the weights
    hub.requests.clear()
    assert resolve("org/pythia@step1") == second
    assert not hub.fetched()
    forget(HubName.parse("org/pythia@step1"), second.revision)
    assert not list((tmp_path / "home").rglob("blobs/*"))


def test_a_missing_shard_is_named(tmp_path):
    folder = tmp_path / "step-1"
    save(network("bert"), folder)
    network("bert").save_pretrained(folder, max_shard_size="20KB")
    (folder / "model.safetensors").unlink()
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    shard = sorted(set(index["weight_map"].values()))[1]
    (folder / shard).unlink()
    with pytest.raises(IsoscopeError, match=f"lacks {shard}, which"):
        resolve(str(folder))
