"""The Transformer of a sentence-transformers folder."""

import json

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.trust.sentence_transformers import transformer_folder


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
