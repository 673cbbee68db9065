"""A fitted repair is saved to a file and loaded from it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.repair import AllButTheTop, Centre, CentreClusters, Standardise, Whiten, load
from tests.repair.repair_clouds import anisotropic

ALL = [
    Centre(),
    Standardise(),
    AllButTheTop(),
    AllButTheTop(k=0),
    AllButTheTop(k=np.int64(2)),
    Whiten("zca", ridge=0.1),
    Whiten(n_components=3),
]


@pytest.mark.parametrize("repair", ALL, ids=repr)
def test_a_loaded_repair_transforms_bit_for_bit_as_the_saved_one(repair, tmp_path):
    X = anisotropic()
    repair.fit(X).save(tmp_path / "repair.safetensors")
    for again in (load(tmp_path / "repair.safetensors"), type(repair).load(tmp_path / "repair.safetensors")):
        assert type(again) is type(repair)
        assert again.get_params() == repair.get_params()
        assert (again.n_samples_seen_, again.n_features_in_) == (400, 12)
        np.testing.assert_array_equal(again.transform(X), repair.transform(X))
        if hasattr(repair, "inverse_transform"):
            np.testing.assert_array_equal(again.inverse_transform(repair.transform(X)), repair.inverse_transform(repair.transform(X)))
    assert [path.name for path in tmp_path.iterdir()] == ["repair.safetensors"]


def test_metadata_hold_class_parameters_and_version(tmp_path):
    Whiten("zca", ridge=0.5).fit(anisotropic()).save(tmp_path / "w")
    with safe_open(tmp_path / "w", framework="numpy") as file:
        metadata = file.metadata()
    assert json.loads(metadata["parameters"]) == {"kind": "zca", "n_components": None, "ridge": 0.5}
    assert (metadata["class"], metadata["isoscope"], metadata["n"], metadata["d"]) == ("Whiten", isoscope.__version__, "400", "12")


def test_feature_names_are_saved(tmp_path):
    X = pd.DataFrame(anisotropic(d=3), columns=["a", "b", "c"])
    Centre().fit(X).save(tmp_path / "c")
    assert list(load(tmp_path / "c").get_feature_names_out()) == ["a", "b", "c"]


def test_files_that_are_not_ours_are_refused_in_one_sentence(tmp_path):
    save_file({"mean_": np.zeros(3)}, tmp_path / "other")
    (tmp_path / "text").write_text("hello")
    Centre().fit(anisotropic()).save(tmp_path / "centre")
    cases = {
        "other": (load, "is not a repair that isoscope saved"),
        "text": (load, "is not a repair that isoscope saved"),
        "absent": (load, "There is no file"),
        "centre": (Whiten.load, "holds Centre, not Whiten; isoscope.repair.load reads any"),
    }
    for name, (read, sentence) in cases.items():
        with pytest.raises(IsoscopeError, match=sentence) as caught:
            read(tmp_path / name)
        assert "\n" not in str(caught.value)


def saved_parts(repair, path):
    """The metadata and the arrays of the file of a fitted repair."""
    repair.fit(anisotropic()).save(path)
    with safe_open(path, framework="numpy") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@pytest.mark.parametrize(
    ("repair", "changes"),
    [
        (Whiten(), {"mean_": np.zeros(1)}),
        (Whiten(), {"variances_": None}),
        (Whiten(), {"variances_": np.ones(11)}),
        (Whiten(), {"components_": np.ones((12, 13))}),
        (Standardise(), {"scale_": np.ones(12, int)}),
        (CentreClusters(k=2), {"centres_": np.zeros((0, 12)), "means_": np.zeros((0, 12)), "components_": np.zeros((0, 0, 12))}),
    ],
)
def test_a_file_with_arrays_that_do_not_fit_is_damaged(repair, changes, tmp_path):
    metadata, arrays = saved_parts(repair, tmp_path / "sound")
    arrays = {name: array for name, array in (arrays | changes).items() if array is not None}
    save_file(arrays, tmp_path / "damaged", metadata=metadata)
    with pytest.raises(IsoscopeError, match="is damaged"):
        load(tmp_path / "damaged")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"class": "LinearRepair"}, "holds LinearRepair, not Repair"),
        ({"d": "13"}, "is damaged"),
        ({"d": "many"}, "is damaged"),
        ({"parameters": '{"k": 1}'}, "its parameters are"),
        ({"parameters": "[]"}, "its parameters are"),
        ({"feature_names": '["a"]'}, "its feature names are not 12 strings"),
    ],
)
def test_a_file_with_metadata_that_do_not_fit_is_refused(changes, sentence, tmp_path):
    metadata, arrays = saved_parts(Whiten(), tmp_path / "sound")
    save_file(arrays, tmp_path / "damaged", metadata=metadata | changes)
    with pytest.raises(IsoscopeError, match=sentence):
        load(tmp_path / "damaged")


def test_saving_into_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(IsoscopeError, match="Cannot write"):
        Centre().fit(anisotropic()).save(tmp_path / "no" / "folder")
