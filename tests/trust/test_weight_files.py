"""Which files of a folder hold the weights."""

import json

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.models.naming.model_name import resolve_model
from isoscope.trust.weight_files import weights_in
from tests.models.suite_hub import network, save


def test_a_missing_shard_is_named(tmp_path):
    folder = tmp_path / "step-1"
    save(network("bert"), folder)
    network("bert").save_pretrained(folder, max_shard_size="20KB")
    (folder / "model.safetensors").unlink()
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    shard = sorted(set(index["weight_map"].values()))[1]
    (folder / shard).unlink()
    with pytest.raises(IsoscopeError, match=f"lacks {shard}, which"):
        resolve_model(str(folder))


def test_an_index_of_shards_that_cannot_be_read_is_a_mistake_of_the_folder(tmp_path):
    (tmp_path / "model.safetensors.index.json").write_bytes(b"\xff\xfe")
    with pytest.raises(IsoscopeError, match="cannot be read as an index of shards; copy or download it again"):
        weights_in(tmp_path)
