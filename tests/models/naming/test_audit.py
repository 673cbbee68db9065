"""What is wrong with a suite of checkpoints: repeated weights, missing steps."""

import pytest
from safetensors.torch import load_file, save_file

from isoscope.models.naming.audit import CheckpointRecord, find_faults, missing_grid_steps, tensor_hashes
from isoscope.models.naming.suite import Checkpoint, Suite
from tests.models.suite_hub import network, save


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A whole model in a folder."""
    return save(network("bert"), tmp_path_factory.mktemp("model") / "bert")


def places(suite):
    return [(one.seed, one.step) for one in suite.checkpoints]


def test_hashes_depend_on_tensors_not_files_and_tell_matrices_apart(tmp_path, model):
    whole, matrices = tensor_hashes(model)
    again = tmp_path / "shards"
    network("bert").save_pretrained(again, max_shard_size="20KB")
    assert len(list(again.glob("*.safetensors"))) > 1
    assert tensor_hashes(again) == (whole, matrices)
    weights = load_file(model / "model.safetensors")
    weights["bert.encoder.layer.0.output.dense.bias"][3] += 1
    (tmp_path / "moved").mkdir()
    save_file(weights, tmp_path / "moved" / "model.safetensors")
    moved = tensor_hashes(tmp_path / "moved")
    assert moved[0] != whole
    assert moved[1] == matrices


def seen(*entries):
    return [CheckpointRecord(seed, step, tensors, matrices) for seed, step, tensors, matrices in entries]


def of(places):
    return Suite("net", tuple(Checkpoint("", step, seed) for seed, step in places))


def test_repeated_and_untrained_weights_are_reported():
    sound = [(None, 0), (None, 1), (None, 2), (None, 4)]
    assert find_faults(of(sound), seen(*((seed, step, f"t{step}", f"m{step}") for seed, step in sound))) == []
    found = find_faults(of(sound), seen((None, 0, "a", "m"), (None, 1, "b", "n"), (None, 2, "b", "n"), (None, 4, "c", "m")))
    assert found == [
        "net: the steps 1 and 2 hold the same weights, bit for bit: one was saved in the place of another.",
        "net, step 4: every matrix is that of step 0, bit for bit: re-initialised, or never trained.",
    ]
    two = [(0, 0), (0, 5), (0, 9), (1, 0), (1, 5), (1, 9)]
    same = seen((0, 0, "i", "i"), (0, 5, "a", "a"), (0, 9, "b", "b"), (1, 0, "i", "i"), (1, 5, "a", "a"), (1, 9, "c", "c"))
    assert find_faults(of(two), same) == [
        "net: step 5 of seed 0 and step 5 of seed 1 hold the same weights, bit for bit: one was saved in the place of another."
    ]


def test_missing_steps_are_reported_once():
    lacking = [(0, 0), (0, 5), (0, 9), (1, 0), (1, 5), (1, 9), (2, 0), (2, 5)]
    assert find_faults(of(lacking), []) == ["net, seed 2: step 9 is missing, which other seeds have."]
    sparse = [(0, 0), (0, 5), (0, 9), (1, 0), (1, 9), (2, 9)]  # of other seeds only the ends were kept
    assert find_faults(of(sparse), []) == []
    assert find_faults(of([(None, step) for step in (0, 100, 200, 400, 500)]), []) == [
        "net: step 300 is missing, by the spacing of the others."
    ]
    suite = Suite("net", of([(0, 1)]).checkpoints, absent=((0, 2),))
    assert find_faults(suite, [CheckpointRecord(0, 1, problem="It is damaged.")]) == [
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
def test_missing_grid_steps_are_those_of_a_grid_only(steps, expected):
    assert missing_grid_steps(steps) == expected
