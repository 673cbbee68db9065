"""Weights by name, from any file and under any prefix."""

import json

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from isoscope.core.errors import IsoscopeError
from isoscope.models.loading.formats.state import read_state, state_for, strip_prefix
from isoscope.trust.model_files import is_standard, weights_in


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.block = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))


class Wrapped(nn.Module):
    """As a Lightning module holds a network."""

    def __init__(self, net):
        super().__init__()
        self.net = net
        self.loss = nn.Linear(1, 1)


@pytest.mark.parametrize(
    ("wrap", "prefix"),
    [
        (lambda model: model, ""),
        (nn.DataParallel, "module."),
        (torch.compile, "_orig_mod."),
        (Wrapped, "net."),
        (lambda model: nn.DataParallel(Wrapped(torch.compile(model))), "module.net._orig_mod."),
    ],
)
def test_prefixes_of_wrappers_are_removed_from_names(wrap, prefix):
    expected = Small().state_dict()
    names = strip_prefix(expected, wrap(Small()).state_dict())
    assert names == {prefix + key: key for key in expected}


def test_a_prefix_needs_nearly_all_names():
    expected = [f"layer.{number}.weight" for number in range(20)]
    assert strip_prefix(expected, [f"model.{key}" for key in expected[:18]]) is not None
    assert strip_prefix(expected, [f"model.{key}" for key in expected[:17]]) is None
    assert strip_prefix(expected, []) is None
    both = [f"{who}.{key}" for who in ("student", "teacher") for key in expected]
    assert set(strip_prefix(expected, both[:-1])) == set(both[:20])  # the one that is whole


def equal(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


def test_states_are_read_from_whatever_file(tmp_path):
    state = Small().state_dict()
    keys = sorted(state)
    halves = {f"-{number}": {key: state[key] for key in part} for number, part in enumerate((keys[:2], keys[2:]))}

    def folder(name):
        (tmp_path / name).mkdir()
        return tmp_path / name

    save_file(state, folder("one") / "model.safetensors")
    torch.save({**state, "epoch": 3}, folder("bin") / "pytorch_model.bin")
    torch.save({"state_dict": state, "optimizer_states": [{"state": {}}], "epoch": 3}, folder("lightning") / "epoch=3.ckpt")
    torch.save({"model": state, "step": 1}, folder("nested") / "checkpoint.pt")
    for ending, whole, write in ((".safetensors", "model", save_file), (".bin", "pytorch_model", torch.save)):
        place = folder(f"sharded{ending}")
        for part, tensors in halves.items():
            write(tensors, place / f"{whole}{part}{ending}")
        weight_map = {key: f"{whole}{part}{ending}" for part, tensors in halves.items() for key in tensors}
        (place / f"{whole}{ending}.index.json").write_text(json.dumps({"weight_map": weight_map}))
        (place / f"stray{ending}").write_bytes(b"not part of it")
    for place in tmp_path.iterdir():
        assert equal(read_state(place), state), place
        assert is_standard(place) == (place.name not in ("lightning", "nested"))
    (tmp_path / "sharded.bin" / "pytorch_model-1.bin").unlink()
    with pytest.raises(IsoscopeError, match=r"lacks pytorch_model-1\.bin, which pytorch_model\.bin\.index\.json names"):
        weights_in(tmp_path / "sharded.bin")
    with pytest.raises(IsoscopeError, match="holds no weights"):
        read_state(folder("empty"))


def test_a_prefixed_checkpoint_becomes_the_model(small_models, tmp_path):
    from transformers import BertForMaskedLM

    plain = BertForMaskedLM.from_pretrained(small_models("bert"))

    def loaded(saved):
        torch.save({"state_dict": saved.state_dict()}, tmp_path / "last.ckpt")
        state = state_for(BertForMaskedLM(plain.config), tmp_path)
        return BertForMaskedLM.from_pretrained(None, config=plain.config, state_dict=state, output_loading_info=True)

    whole, report = loaded(nn.DataParallel(plain))
    assert not report["missing_keys"]
    assert equal(whole.state_dict(), plain.state_dict())
    base, report = loaded(Wrapped(plain.bert))
    assert {key.partition(".")[0] for key in report["missing_keys"]} == {"cls"}
    assert equal(base.bert.state_dict(), plain.bert.state_dict())
    torch.save({"other.weight": torch.ones(1)}, tmp_path / "last.ckpt")
    assert state_for(plain, tmp_path) is None
