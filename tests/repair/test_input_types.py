"""What goes in comes back: torch tensors of every type, frames of pandas and polars, and what is refused."""

from __future__ import annotations

import pickle
import sys
from inspect import isabstract

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import isoscope.repair
from isoscope.core.errors import IsoscopeWarning
from isoscope.repair import AllButTheTop, Centre, CentreClusters, Repair, RepairError, Standardise, Whiten
from tests.patience import run_process
from tests.repair.repair_clouds import REPAIRS, anisotropic, two_balls

NAMES = list("abcdefghijkl")
TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def test_the_repairs_tested_here_are_all_there_are():
    public = [getattr(isoscope.repair, name) for name in isoscope.repair.__all__]
    kinds = {kind for kind in public if isinstance(kind, type) and issubclass(kind, Repair) and not isabstract(kind)}
    assert {type(repair) for repair in REPAIRS} == kinds


@pytest.mark.filterwarnings("ignore::isoscope.core.errors.IsoscopeWarning")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("repair", REPAIRS, ids=repr)
def test_a_tensor_gives_a_tensor_of_its_type_with_the_numbers_of_its_array(repair, dtype):
    x = torch.tensor(two_balls()).to(dtype)
    array = x.double().numpy() if dtype == torch.float64 else x.float().numpy()
    repair = clone(repair).fit(array)
    out = repair.transform(x)
    assert (out.dtype, out.device, out.requires_grad) == (dtype, x.device, False)
    assert torch.equal(out, torch.from_numpy(repair.transform(array)).to(dtype))
    if hasattr(repair, "inverse_transform"):
        image = out.to(torch.from_numpy(array).dtype).numpy()
        assert torch.equal(repair.inverse_transform(out), torch.from_numpy(repair.inverse_transform(image)).to(dtype))


def test_fit_takes_tensors_with_gradients_parameters_views_and_subclasses():
    class Named(torch.Tensor):
        pass

    X = anisotropic().astype(np.float32)
    expected = Whiten("zca").fit_transform(X)
    wide = torch.tensor(np.repeat(X, 2, axis=1))
    for x in (
        torch.tensor(X, requires_grad=True) * 1,
        torch.nn.Parameter(torch.tensor(X)),
        wide[:, ::2],
        torch.tensor(X).as_subclass(Named),
    ):
        out = Whiten("zca").fit_transform(x)
        assert isinstance(out, torch.Tensor)
        assert not out.requires_grad
        np.testing.assert_array_equal(np.asarray(out), expected)


def test_directions_within_the_rounding_of_a_bfloat16_tensor_are_left_out():
    X = anisotropic(2000, 6, offset=0)
    x = torch.tensor(np.concatenate([X, X[:, :1] + X[:, 1:2]], axis=1)).bfloat16()
    with pytest.warns(IsoscopeWarning, match=r"1 of the 7 directions have no variance beyond rounding"):
        assert Whiten().fit_transform(x).shape == (2000, 6)
    # The same numbers in float32 were not rounded by float32: their seventh direction counts.
    assert Whiten().fit_transform(x.float()).shape == (2000, 7)


def test_labels_of_a_tensor_are_a_tensor():
    X = two_balls()
    repair = CentreClusters(k=2).fit(X)
    label = repair.labels(torch.tensor(X))
    assert label.dtype == torch.int64
    np.testing.assert_array_equal(label.numpy(), repair.labels(X))
    assert set(label[::2].tolist()).isdisjoint(label[1::2].tolist())


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (lambda x: x.long(), RepairError, r"^X must be a tensor of float64, .* or bfloat16; it holds torch.int64\. Convert it first\.$"),
        (lambda x: x > 0, RepairError, "it holds torch.bool"),
        (lambda x: x.to(torch.complex64), RepairError, "it holds torch.complex64"),
        (lambda x: x.to("meta"), RepairError, r"^X must hold numbers; a tensor on the device 'meta' has only a shape\.$"),
        (lambda x: x.to_sparse(), RepairError, r"^X must be a dense tensor; its layout is torch.sparse_coo\. Pass X.to_dense\(\)\.$"),
        (lambda x: torch.nested.nested_tensor([x, x]), RepairError, r"is a nested tensor\. Pass torch.cat"),
        (lambda x: x.masked_fill(x == x[3, 2], float("nan")), RepairError, "^X has NaN or infinity, first in row 3; "),
        (lambda x: x[:, :5], ValueError, "^X has 5 features, but Centre is expecting 12 features as input.$"),
        (lambda x: x[None], ValueError, "dim 3"),
    ],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_tensors_that_are_refused(change, error, sentence):
    x = torch.tensor(anisotropic(20)).float()
    with pytest.raises(error, match=sentence) as caught:
        Centre().fit(x).transform(change(x))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), "could not convert string to float: 'x'"),
        (pd.DataFrame({"a": [1.0, 2.0], "b": pd.array([1.0, None], dtype="Float64")}), "X has NaN or infinity, first in row 1"),
        (pd.DataFrame({"a": [1.0, 2.0], "c": [1.0, 2.0]}), "The feature names should match those that were passed during fit"),
    ],
)
def test_frames_that_are_refused(frame, sentence):
    with pytest.raises(ValueError, match=sentence):
        Centre().fit(pd.DataFrame({"a": [1.0, 4.0], "b": [1.0, 3.0]})).transform(frame)


@pytest.mark.filterwarnings("ignore::isoscope.core.errors.IsoscopeWarning")
@pytest.mark.parametrize("repair", REPAIRS, ids=repr)
def test_a_pandas_frame_keeps_its_index_and_its_names(repair):
    frame = pd.DataFrame(two_balls(), columns=NAMES, index=[f"row {i}" for i in range(300)])
    plain = clone(repair).fit(frame)
    array = plain.transform(frame)
    assert isinstance(array, np.ndarray)
    out = plain.set_output(transform="pandas").transform(frame)
    assert list(out.index) == list(frame.index)
    assert list(out.columns) == list(plain.get_feature_names_out())
    assert list(out.columns) == (NAMES if array.shape[1] == 12 else [f"whiten{i}" for i in range(array.shape[1])])
    np.testing.assert_array_equal(out.to_numpy(), array)


@pytest.mark.filterwarnings("ignore::isoscope.core.errors.IsoscopeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("repair", REPAIRS, ids=repr)
def test_a_polars_frame_keeps_its_names_and_its_type(repair, dtype):
    polars = pytest.importorskip("polars")
    X = two_balls().astype(dtype)
    frame = polars.DataFrame(X, schema=NAMES)
    fitted = clone(repair).fit(frame)
    expected = clone(repair).fit_transform(X)
    array = fitted.transform(frame)
    assert array.dtype == dtype
    np.testing.assert_allclose(array, expected, atol=1e-11 if dtype == np.float64 else 0)  # columns of polars are summed in another order
    out = fitted.set_output(transform="polars").transform(frame)
    assert out.columns == list(fitted.get_feature_names_out())
    assert set(out.dtypes) == {polars.Float32 if dtype == np.float32 else polars.Float64}
    np.testing.assert_array_equal(out.to_numpy(), array)


def test_polars_columns_that_are_no_floats_and_nulls():
    polars = pytest.importorskip("polars")
    whole = polars.DataFrame({"a": [1, 2, 4], "b": [0.5, 1.0, 2.0]})
    np.testing.assert_array_equal(Standardise().fit_transform(whole), Standardise().fit_transform(whole.to_numpy()))
    with pytest.raises(RepairError, match="NaN or infinity, first in row 1"):
        Centre().fit(polars.DataFrame({"a": [1.0, None], "b": [1.0, 2.0]}))
    with pytest.raises(ValueError, match="could not convert string to float"):
        Centre().fit(polars.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]}))


def test_directions_within_the_rounding_of_a_float32_polars_frame_are_left_out():
    polars = pytest.importorskip("polars")
    X = anisotropic(500, offset=1000)
    X = np.concatenate([X, X[:, :1] + X[:, 1:2]], axis=1).astype(np.float32)
    with pytest.warns(IsoscopeWarning, match=r"1 of the 13 directions"):
        assert Whiten().fit_transform(polars.DataFrame(X)).shape == (500, 12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_set_output_wins_over_the_kind_of_a_tensor(dtype):
    x = torch.tensor(anisotropic(), requires_grad=True).to(dtype)
    repair = AllButTheTop(k=2).fit(x)
    expected = repair.transform(x.detach().float().numpy())
    with config_context(transform_output="pandas"):
        globally = repair.transform(x)
    for out in (globally, repair.set_output(transform="pandas").transform(x), repair.fit_transform(x)):
        assert isinstance(out, pd.DataFrame)
        assert list(out.columns) == [f"x{i}" for i in range(12)]
        np.testing.assert_array_equal(out.to_numpy(), expected)
    assert isinstance(repair.set_output(transform="default").transform(x), torch.Tensor)


def test_a_pipeline_of_tensors_and_of_frames():
    X = anisotropic()
    pipeline = make_pipeline(Standardise(), AllButTheTop(k=2))
    expected = pipeline.fit_transform(X)
    out = pipeline.fit_transform(torch.tensor(X))
    assert (type(out), out.dtype) == (torch.Tensor, torch.float64)
    np.testing.assert_array_equal(out.numpy(), expected)
    framed = clone(pipeline).set_output(transform="pandas").fit(pd.DataFrame(X, columns=NAMES))
    again = pickle.loads(pickle.dumps(framed))
    for fitted in (framed, again):
        out = fitted.transform(pd.DataFrame(X, columns=NAMES))
        assert list(out.columns) == NAMES
        np.testing.assert_array_equal(out.to_numpy(), expected)


WITHOUT_TORCH = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "polars", "faiss"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
import numpy as np
from isoscope.repair import Whiten, load
X = np.random.default_rng(0).normal(size=(50, 4))
whiten = Whiten().fit(X)
whiten.save(sys.argv[1])
assert (load(sys.argv[1]).transform(X) == whiten.transform(X)).all()
for convert in (whiten.to_torch, whiten.to_faiss):
    try:
        convert()
    except ImportError as error:
        print(error)
"""


def test_without_torch_a_repair_does_all_but_become_a_module(tmp_path):
    ended = run_process([sys.executable, "-c", WITHOUT_TORCH, str(tmp_path / "whiten")])
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "Whiten.to_torch needs the package torch: pip install 'isoscope[models]'.",
        "Whiten.to_faiss needs the package faiss-cpu: pip install 'isoscope[faiss]'.",
    ]
