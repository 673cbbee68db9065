"""scikit-learn's own checks of an estimator, and its tools: pipelines, clones, data frames."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import isoscope.repair
from isoscope.core.errors import IsoscopeError
from isoscope.repair import AllButTheTop, Centre, Standardise, Whiten

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


def test_names_of_a_frame_pass_through_and_back():
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


def test_without_scikit_learn_one_sentence_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("isoscope.repair") and name != "isoscope.repair.errors"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(isoscope, "repair", isoscope.repair)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(IsoscopeError, match=r"pip install 'isoscope\[repair\]'") as caught:
        importlib.import_module("isoscope.repair")
    assert isinstance(caught.value, ImportError)
    assert "\n" not in str(caught.value)
