"""All repairs share: scikit-learn's own checks and tools (pipelines, clones, data frames), and fitting to a layer of a run."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import isoscope.repair
from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.repair import AllButTheTop, Centre, HasStatistics, Standardise, Whiten
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
