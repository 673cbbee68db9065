"""The module of a repair against its `transform` in float64: numbers, types, shapes, gradients, state, export."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from isoscope.core.errors import IsoscopeError
from isoscope.repair import AllButTheTop, Centre, CentreClusters, LinearRepair, Standardise, Whiten
from tests.repair.repair_clouds import LINEAR, REPAIRS, anisotropic, two_balls

pytestmark = pytest.mark.filterwarnings("ignore::isoscope.core.errors.IsoscopeWarning")
EXPORTED = [Standardise(), AllButTheTop(k=0), Whiten("zca", ridge=0.1), Whiten(n_components=4), CentreClusters(k=3, directions=2)]


@pytest.mark.parametrize("repair", REPAIRS, ids=repr)
def test_in_float64_the_module_is_transform(repair):
    X = two_balls()
    repair = clone(repair).fit(X)
    module, expected = repair.to_torch(dtype=torch.float64), repair.transform(X)
    np.testing.assert_allclose(module(torch.tensor(X)).numpy(), expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("offset", [5.0, 1000.0])
@pytest.mark.parametrize("repair", REPAIRS, ids=repr)
def test_in_float32_the_error_is_a_millionth_of_the_distance_to_the_mean_times_the_gain(repair, offset):
    """The mean is held in two parts: rounded to float32, one of 1000 would be off by 3e-5."""
    x = torch.tensor(two_balls(offset=offset)).float()
    repair = clone(repair).fit(x)
    expected = repair.transform(x.double()).numpy()
    out = repair.to_torch()(x)
    assert out.dtype == torch.float32
    gain = np.linalg.norm(repair._linear_map().matrix(), 2) if isinstance(repair, LinearRepair) else 1.0
    length = np.linalg.norm(x.double().numpy() - repair.mean_, axis=1)
    assert (np.linalg.norm(out.double().numpy() - expected, axis=1) < 1e-6 * gain * length).all()


@pytest.mark.parametrize("repair", REPAIRS, ids=repr)
def test_embeddings_with_variances_over_two_decades_agree_to_a_millionth(repair):
    x = torch.tensor(anisotropic()).float()
    repair = clone(repair).fit(x)
    expected = repair.transform(x.double()).numpy()
    np.testing.assert_allclose(repair.to_torch()(x).numpy(), expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_the_type_of_the_input_comes_back(dtype):
    x = torch.tensor(two_balls()).to(dtype)
    repair = AllButTheTop(k=2).fit(x)
    out = repair.to_torch()(x)
    assert out.dtype == dtype
    exact = repair.to_torch(dtype=torch.float64)(x.double())
    rounding = max(torch.finfo(dtype).eps, 1e-6)  # it computes in float32
    assert (out.double() - exact).norm() < rounding * (x.double() - torch.tensor(repair.mean_)).norm()


def test_mixed_precision_takes_no_digits():
    x = torch.tensor(two_balls()).float()
    module = Whiten("zca").fit(x).to_torch()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.nn.Linear(12, 12)(x).dtype == torch.bfloat16
        mixed = module(x)
    assert torch.equal(mixed, module(x))


@pytest.mark.parametrize("repair", [Whiten(n_components=4), CentreClusters(k=3, directions=2)], ids=repr)
def test_sequences_and_single_points(repair):
    X = torch.tensor(two_balls(), dtype=torch.float32)
    module = repair.fit(X).to_torch()
    out = module(X)
    np.testing.assert_allclose(module(X.view(10, 30, 12)).numpy(), out.view(10, 30, -1).numpy(), atol=1e-5)
    np.testing.assert_allclose(module(X[4]).numpy(), out[4].numpy(), atol=1e-5)
    assert module(X[:0]).shape == (0, out.shape[1])


@pytest.mark.parametrize("repair", LINEAR, ids=repr)
def test_the_gradient_is_the_matrix_and_nothing_is_trained(repair):
    X = two_balls()
    repair = clone(repair).fit(X)
    module = repair.to_torch(dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(module, torch.tensor(X[0]))
    np.testing.assert_allclose(jacobian.numpy(), repair._linear_map().matrix().T, atol=1e-12)
    assert not list(module.parameters())


def test_the_state_of_one_module_makes_another_the_same():
    first, second = (Whiten("zca").fit(anisotropic(seed=seed)).to_torch() for seed in (0, 1))
    x = torch.tensor(anisotropic(9, seed=2)).float()
    assert (first(x) - second(x)).abs().max() > 0.1
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(first(x), second(x))
    assert torch.equal(first(x), pickle.loads(pickle.dumps(first))(x))
    assert str(first) == "LinearModule(Whiten(kind='zca'))"


def test_moving_and_converting_the_module():
    module = CentreClusters(k=3, directions=2).fit(two_balls()).to_torch()
    x = torch.tensor(two_balls())
    wide = module.double()(x)
    np.testing.assert_allclose(wide.numpy(), module.float()(x.float()).numpy(), atol=1e-4, rtol=0)
    assert {buffer.device.type for buffer in module.to("meta").buffers()} == {"meta"}


def test_a_default_device_does_not_matter():
    with torch.device("meta"):
        module = CentreClusters(k=2, directions=1).fit(two_balls()).to_torch()
    assert {buffer.device.type for buffer in module.buffers()} == {"cpu"}


@pytest.mark.parametrize("repair", EXPORTED, ids=repr)
def test_torch_export_takes_batches_of_any_size(repair):
    x = torch.tensor(two_balls()).float()
    module = clone(repair).fit(x).to_torch()
    exported = torch.export.export(module, (x,), dynamic_shapes={"x": {0: torch.export.Dim("n")}})
    for n in (2, 7, 300):
        np.testing.assert_allclose(exported.module()(x[:n]).numpy(), module(x[:n]).numpy(), atol=1e-5)


@pytest.mark.parametrize("repair", EXPORTED, ids=repr)
def test_onnx_runtime_computes_the_module(repair):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    x = torch.tensor(two_balls()).float()
    repair = clone(repair).fit(x)
    program = torch.onnx.export(repair.to_torch(), (x,), dynamo=True, verbose=False, dynamic_shapes={"x": {0: torch.export.Dim("n")}})
    session = runtime.InferenceSession(program.model_proto.SerializeToString())
    for n in (2, 7, 300):
        (out,) = session.run(None, {"x": x[:n].numpy()})
        expected = repair.transform(x[:n].double()).numpy()
        np.testing.assert_allclose(out, expected, rtol=0, atol=5e-6 * np.abs(expected).max())


def test_what_a_module_refuses():
    module = Centre().fit(anisotropic()).to_torch()
    for x, sentence in (
        (torch.zeros(3, 5), r"^x has 5 features, but Centre\(\) is expecting 12 features as input\.$"),
        (torch.zeros(3, 1), "x has 1 features"),
        (torch.zeros(3, 12, dtype=torch.int64), r"^x must be a tensor of floats; it holds torch.int64\. Pass x.float\(\)\.$"),
    ):
        with pytest.raises(IsoscopeError, match=sentence):
            module(x)
    for dtype in (torch.int64, "float64"):
        with pytest.raises(IsoscopeError, match=r"^The 'dtype' parameter must be a floating-point type of torch\. Got .*64'? instead\.$"):
            Centre().fit(anisotropic()).to_torch(dtype)
    for repair in (Centre(), CentreClusters()):
        with pytest.raises(NotFittedError):
            repair.to_torch()
