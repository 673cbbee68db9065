"""ONNX files: weights and nodes, those within a branch too."""

import numpy as np

from isoscope.packages.convert.onnx_weights import read_onnx
from tests.packages.convert.onnx_bytes import field, graph, model, node, quantised


def test_weights_have_their_shape_and_type(tmp_path):
    weights = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([-1, 2], np.int8), "scalar": np.float32(4)}
    (tmp_path / "x.onnx").write_bytes(model([node("/layer/MatMul", "x", "a")], weights))
    onnx = read_onnx(tmp_path / "x.onnx")
    assert onnx.nodes == {"/layer/MatMul": ["x", "a"]}
    for name, array in weights.items():
        np.testing.assert_array_equal(onnx.weights[name], array)
        assert onnx.weights[name].dtype == np.asarray(array).dtype


def test_a_branch_is_read_too(tmp_path):
    inside = graph([node("/decoder/MatMul", "y", "w")], {"w": np.ones((2, 2), np.float32)})
    (tmp_path / "x.onnx").write_bytes(model([node("If", branch=inside)], {}))
    onnx = read_onnx(tmp_path / "x.onnx")
    assert onnx.nodes["/decoder/MatMul"] == ["y", "w"]
    assert onnx.weights["w"].shape == (2, 2)


def test_floats_may_be_stored_one_by_one(tmp_path):
    """`float_data`, the form that exporters choose for single numbers."""
    one = field(1, 1) + field(2, 1) + field(8, b"one") + field(4, np.float32([2.5]).tobytes())
    (tmp_path / "x.onnx").write_bytes(field(7, field(5, one)))
    assert read_onnx(tmp_path / "x.onnx").weights["one"].tolist() == [2.5]


def test_a_quantised_matrix_comes_back(tmp_path):
    weight = np.array([[1.5, -1.0], [0.0, 20.0]], np.float32)
    (tmp_path / "x.onnx").write_bytes(model([], quantised("w", weight)))
    np.testing.assert_array_equal(read_onnx(tmp_path / "x.onnx").dequantise("w"), weight)
