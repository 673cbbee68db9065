"""Which files of a folder hold the weights, and where the Transformer of a sentence-transformers folder is."""

import json

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.models.naming.model_name import resolve_model
from isoscope.trust.model_files import transformer_folder, weights_in
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


def modules(folder, *kinds, path=""):
    entries = [{"idx": number, "path": path if number == 0 else f"{number}_X", "type": kind} for number, kind in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(entries[::-1]))


def test_the_transformer_of_a_sentence_transformers_folder(tmp_path):
    assert transformer_folder(tmp_path) == tmp_path
    modules(tmp_path, "sentence_transformers.models.Transformer", "sentence_transformers.models.Pooling")
    assert transformer_folder(tmp_path) == tmp_path
    modules(tmp_path, "sentence_transformers.models.Transformer", path="0_Transformer")
    with pytest.raises(IsoscopeError, match="0_Transformer"):
        transformer_folder(tmp_path)
    (tmp_path / "0_Transformer").mkdir()
    assert transformer_folder(tmp_path) == tmp_path / "0_Transformer"
    modules(tmp_path, "sentence_transformers.models.WordEmbeddings")
    with pytest.raises(IsoscopeError, match="is WordEmbeddings; it must be a Transformer"):
        transformer_folder(tmp_path)
    modules(tmp_path, "sentence_transformers.models.Transformer", path="../elsewhere")
    with pytest.raises(IsoscopeError, match="outside its folder"):
        transformer_folder(tmp_path)
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(IsoscopeError, match="cannot be read as a list"):
        transformer_folder(tmp_path)
