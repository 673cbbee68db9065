"""Saving and loading, and fitting from a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from repair_clouds import OpenRun, anisotropic
from safetensors import safe_open
from safetensors.numpy import save_file

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.repair import AllButTheTop, Centre, HasStatistics, Standardise, Whiten, load
from isoscope.statistics.matrix_cloud import cloud_of

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
def test_what_is_loaded_does_what_was_saved_bit_for_bit(repair, tmp_path):
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


def test_the_file_says_what_it_is(tmp_path):
    Whiten("zca", ridge=0.5).fit(anisotropic()).save(tmp_path / "w")
    with safe_open(tmp_path / "w", framework="numpy") as file:
        metadata = file.metadata()
    assert json.loads(metadata["parameters"]) == {"kind": "zca", "n_components": None, "ridge": 0.5}
    assert (metadata["class"], metadata["isoscope"], metadata["n"], metadata["d"]) == ("Whiten", isoscope.__version__, "400", "12")


def test_the_names_of_columns_are_saved(tmp_path):
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


def test_a_file_whose_arrays_do_not_fit_is_damaged(tmp_path):
    Whiten().fit(anisotropic()).save(tmp_path / "w")
    with safe_open(tmp_path / "w", framework="numpy") as file:
        metadata, arrays = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(arrays | {"mean_": np.zeros(1)}, tmp_path / "short", metadata=metadata)
    del arrays["variances_"]
    save_file(arrays, tmp_path / "less", metadata=metadata)
    for name in ("short", "less"):
        with pytest.raises(IsoscopeError, match="is damaged"):
            load(tmp_path / name)


def test_saving_into_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(IsoscopeError, match="Cannot write"):
        Centre().fit(anisotropic()).save(tmp_path / "no" / "folder")


def test_a_cloud_gives_what_its_matrix_gives():
    X = anisotropic()
    np.testing.assert_allclose(Whiten("zca").fit_cloud(cloud_of(X)).transform(X), Whiten("zca").fit_transform(X), atol=1e-10)


@pytest.mark.parametrize(
    ("policy", "slices"), [("all", ["special", "first", "body"]), ("no-special", ["first", "body"]), ("body", ["body"])]
)
def test_a_run_gives_what_the_points_of_its_layer_and_policy_give(policy, slices):
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
def test_a_layer_that_is_not_there_is_answered_with_those_that_are(chosen, sentence):
    with pytest.raises(IsoscopeError, match=sentence):
        Centre.from_run(OpenRun(), **chosen)


def test_a_path_is_not_an_open_run():
    with pytest.raises(IsoscopeError, match=r"must be an open run, isoscope.open\(path\). Got 'runs/x' instead"):
        Centre.from_run("runs/x", layer=0)


ROOT = Path(__file__).parents[2]


def test_the_page_of_the_manual_runs_and_says_what_it_prints(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "embeddings.npy", rng.normal(size=(300, 6)).astype(np.float32) + 3)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(isoscope, "open", lambda path: OpenRun(), raising=False)
    namespace: dict[str, object] = {}
    blocks = (ROOT / "docs/repair.md").read_text("utf-8").split("```python\n")[1:]
    for block in blocks:
        exec(block.split("```")[0], namespace)
    assert len(blocks) == 3
    assert (tmp_path / "whiten.safetensors").exists()


def test_the_example_prints_the_table_of_the_manual(capsys, monkeypatch):
    path = ROOT / "examples/repair_embeddings.py"
    assert len(path.read_text("utf-8").splitlines()) < 60
    monkeypatch.setattr("sys.argv", [str(path)])
    exec(compile(path.read_text("utf-8"), path, "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert printed.strip() in (ROOT / "docs/repair.md").read_text("utf-8")
