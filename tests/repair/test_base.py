"""All repairs share: tools of scikit-learn (pipelines, clones, data frames), fitting to a layer of a run, saving and loading."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import isoscope.repair
from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.repair import AllButTheTop, Centre, CentreClusters, HasStatistics, Standardise, Whiten, load
from tests.repair.repair_clouds import OpenRun, anisotropic

ROOT = Path(__file__).parents[2]
ESTIMATORS = [
    Centre(),
    Standardise(),
    AllButTheTop(),
    AllButTheTop(k=1),
    Whiten(),
    Whiten("zca"),
    Whiten("pca", n_components=1),
    Whiten("zca", ridge=0.1),
]


# No check is left out. The checks fit to columns of zeros and to fewer points than columns, where whitening warns as it should.
@pytest.mark.filterwarnings("ignore::isoscope.core.errors.IsoscopeWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_feature_names_of_a_data_frame_are_passed_through():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=["a", "b", "c"])
    for repair in (Centre(), Standardise(), AllButTheTop(), Whiten("zca")):
        out = repair.set_output(transform="pandas").fit_transform(X)
        assert list(out.columns) == ["a", "b", "c"]
    pca = Whiten("pca", n_components=2).set_output(transform="pandas").fit_transform(X)
    assert list(pca.columns) == ["whiten0", "whiten1"]


def test_a_pipeline_of_two_repairs():
    X = np.random.default_rng(1).normal(size=(100, 6)) + 3
    pipeline = make_pipeline(AllButTheTop(k=2), Centre())
    out = pipeline.fit_transform(X)
    np.testing.assert_allclose(out, AllButTheTop(k=2).fit_transform(X), atol=1e-12)


def test_clone_keeps_parameters_and_forgets_the_fit():
    fitted = Whiten("zca", n_components=2, ridge=0.5).fit(np.random.default_rng(2).normal(size=(20, 4)))
    copy = clone(fitted)
    assert copy.get_params() == {"kind": "zca", "n_components": 2, "ridge": 0.5}
    assert not hasattr(copy, "mean_")


def test_missing_scikit_learn_is_one_sentence_with_the_install_line(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("isoscope.repair")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(isoscope, "repair", isoscope.repair)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(IsoscopeError, match=r"pip install 'isoscope\[repair\]'") as caught:
        importlib.import_module("isoscope.repair")
    assert isinstance(caught.value, ImportError)
    assert "\n" not in str(caught.value)


def test_fit_cloud_equals_fit_of_its_matrix():
    X = anisotropic()
    np.testing.assert_allclose(Whiten("zca").fit_cloud(cloud_of(X)).transform(X), Whiten("zca").fit_transform(X), atol=1e-10)


@pytest.mark.parametrize(
    ("policy", "slices"), [("all", ["special", "first", "body"]), ("no-special", ["first", "body"]), ("body", ["body"])]
)
def test_from_run_equals_fitting_to_the_points_of_that_layer_and_policy(policy, slices):
    run = OpenRun()
    assert isinstance(run, HasStatistics)
    points = np.concatenate([run.points[Site("decoder", "hidden", 1)][name] for name in slices])
    repair = Whiten.from_run(run, model="m", layer=1, stack="decoder", policy=policy, kind="hidden", n_components=4)
    np.testing.assert_allclose(repair.transform(points), Whiten(n_components=4).fit_transform(points), atol=1e-9)
    assert run.asked == ["m"]


def test_parameters_reach_the_class_and_a_site_without_a_layer_is_found():
    run = OpenRun()
    assert AllButTheTop.from_run(run, layer=0, k=3).components_.shape == (3, 6)
    assert Centre.from_run(run, layer=None, kind="final").n_samples_seen_ == 115


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        ({"layer": 1}, "Several stacks have hidden layer 1: decoder, encoder; name one with stack="),
        ({"layer": 5, "stack": "encoder"}, "no statistics at encoder.hidden.5; it has encoder.hidden.0, encoder.hidden.1"),
        ({"layer": 0, "kind": "query"}, r"no statistics at \*.query.0; it has encoder"),
        ({"layer": 7, "policy": "body"}, "'body' leaves no points at encoder.hidden.7"),
        ({"layer": 0, "policy": "bodi"}, "did you mean body"),
    ],
)
def test_an_unknown_layer_is_refused_with_a_list_of_the_layers(chosen, sentence):
    with pytest.raises(IsoscopeError, match=sentence):
        Centre.from_run(OpenRun(), **chosen)


def test_a_path_is_not_an_open_run():
    with pytest.raises(IsoscopeError, match=r"must be an open run, isoscope.open\(path\). Got 'runs/x' instead"):
        Centre.from_run("runs/x", layer=0)


def test_code_of_the_repair_page_runs(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "embeddings.npy", rng.normal(size=(300, 6)).astype(np.float32) + 3)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(isoscope, "open", lambda path: OpenRun(), raising=False)
    namespace: dict[str, object] = {}
    blocks = (ROOT / "docs/repair.md").read_text("utf-8").split("```python\n")[1:]
    for block in blocks:
        if "import faiss" not in block or importlib.util.find_spec("faiss"):
            exec(block.split("```")[0], namespace)
    assert len(blocks) == 5
    assert (tmp_path / "whiten.safetensors").exists()
    np.testing.assert_allclose(namespace["y"].numpy(), namespace["Z"], atol=1e-5)
    if "index" in namespace:
        np.testing.assert_array_equal(namespace["neighbours"][:, 0], range(5))


def test_the_example_prints_the_table_of_the_manual(capsys, monkeypatch):
    path = ROOT / "examples/repair_embeddings.py"
    assert len(path.read_text("utf-8").splitlines()) < 60
    monkeypatch.setattr("sys.argv", [str(path)])
    exec(compile(path.read_text("utf-8"), path, "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert printed.strip() in (ROOT / "docs/repair.md").read_text("utf-8")


SAVED = [
    Centre(),
    Standardise(),
    AllButTheTop(),
    AllButTheTop(k=0),
    AllButTheTop(k=np.int64(2)),
    Whiten("zca", ridge=0.1),
    Whiten(n_components=3),
]


@pytest.mark.parametrize("repair", SAVED, ids=repr)
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
