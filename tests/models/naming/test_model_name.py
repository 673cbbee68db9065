"""A model's identity is the names and contents of its files; checkpoints that share a configuration and a tokenizer are complete models."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from isoscope.core.errors import IsoscopeError
from isoscope.models.loading.load import load_model
from isoscope.models.naming.audit import tensor_hashes
from isoscope.models.naming.model_name import resolve_model
from isoscope.models.naming.suite import open_suite
from tests.models.suite_hub import network, save


def weights_of(folder, more):
    for name, content in more.items():
        (folder / name).write_bytes(content)
    return resolve_model(str(folder)).weights


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"zoo.model": b"1", "zoo.txt": b"2"}, {"zoo.model": b"1zoo.txt2"}),
        ({"zoo.model": b"", "zoo.txt": b"2"}, {"zoo.model": b"zoo.txt2"}),
        ({"zoo.txt": b"12"}, {"zoo.txt1.txt": b"2"}),
        ({"zoo.model": b"12", "zoo.txt": b"3"}, {"zoo.model": b"1", "zoo.txt": b"23"}),
        ({"zoo.model": b"1"}, {"zoo.txt": b"1"}),
    ],
    ids=["two files in one", "an empty file", "a longer name", "a byte moved", "another name"],
)
def test_different_folders_have_different_hashes(small_models, tmp_path, one, other):
    """Names and contents run together are the same bytes in the first two."""
    folders = [shutil.copytree(small_models("bert"), tmp_path / name / "bert") for name in ("one", "other")]
    assert resolve_model(str(folders[0])).weights == resolve_model(str(folders[1])).weights
    assert weights_of(folders[0], one) != weights_of(folders[1], other)


def test_the_untrained_twin_is_another_model_for_every_seed(small_models):
    folder = str(small_models("bert"))
    found = [resolve_model(folder), resolve_model(f"untrained:{folder}"), resolve_model(f"untrained:{folder}", seed=1)]
    assert len({one.weights for one in found}) == 3


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "last.ckpt"])
def test_weights_by_themselves_are_not_a_model(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(IsoscopeError, match=f"{name} is a file of weights; name the folder that holds it and its config.json: {tmp_path}"):
        resolve_model(str(tmp_path / name))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A whole model in a folder."""
    return save(network("bert"), tmp_path_factory.mktemp("model") / "bert")


def places(suite):
    return [(one.seed, one.step) for one in suite.checkpoints]


def test_weights_files_share_one_configuration(tmp_path, model):
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
        found = load_model(resolve_model(one.spec), device="cpu")
        assert torch.equal(found.with_head(tokens).logits, expected), one
        assert len(found.processor("the of and")["input_ids"]) == 5
    shutil.copy(root / "step_6.pt", root / "step_8.pt")
    assert resolve_model(str(root / "step_8.pt")).weights == resolve_model(str(root / "step_6.pt")).weights  # the name says nothing
    torch.save(plain.state_dict(), root / "step_9.pt")
    assert tensor_hashes(resolve_model(str(root / "step_9.pt")).folder) == tensor_hashes(
        resolve_model(str(root / "step_6.pt")).folder
    )  # nor does the archive


def test_a_folder_of_a_step_takes_tokenizer_and_configuration_from_above(tmp_path, model):
    root = tmp_path / "trainer"
    shutil.copytree(model, root)
    network("bert", 1).save_pretrained(root / "checkpoint-5")
    found = load_model(resolve_model(str(root / "checkpoint-5")), device="cpu")
    assert len(found.processor("the of and")["input_ids"]) == 5
    whole = save(network("bert", 1), tmp_path / "whole")
    assert torch.equal(next(found.with_head.parameters()), next(load_model(resolve_model(str(whole)), device="cpu").with_head.parameters()))
    (root / "checkpoint-5" / "config.json").unlink()
    assert load_model(resolve_model(str(root / "checkpoint-5")), device="cpu").with_head.config.hidden_size == 32
    shutil.copytree(root / "checkpoint-5", root / "another")
    with pytest.raises(IsoscopeError, match=r"another has no config\.json"):
        resolve_model(str(root / "another"))
