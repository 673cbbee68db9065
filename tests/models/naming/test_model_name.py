"""What identifies a model: the names and the contents of its files, and nothing else."""

import shutil

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.models.naming.model_name import resolve_model


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
