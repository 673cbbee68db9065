"""Nodes and weights of an ONNX file, read with protobuf alone: only the few fields that weights need are described."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# message: {field: (number in the ONNX schema, type, repeated)}
SCHEMA = {
    "Model": {"graph": (7, "Graph", False)},
    "Graph": {"node": (1, "Node", True), "initializer": (5, "Tensor", True)},
    "Node": {"input": (1, "string", True), "name": (3, "string", False), "attribute": (5, "Attribute", True)},
    "Attribute": {"g": (6, "Graph", False)},
    "Tensor": {
        "dims": (1, "int64", True),
        "data_type": (2, "int32", False),
        "float_data": (4, "float", True),
        "int32_data": (5, "int32", True),
        "int64_data": (7, "int64", True),
        "name": (8, "string", False),
        "raw_data": (9, "bytes", False),
    },
}
DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_}
"""The element types of ONNX that occur here, by their numbers."""


@dataclass
class OnnxFile:
    """The weights by name, and the inputs of each node by the node's name; those within a branch of the graph too."""

    weights: dict[str, np.ndarray]
    nodes: dict[str, list[str]]

    def dequantise(self, name: str) -> np.ndarray:
        """(q − zero point) × scale, from the three tensors that the quantiser makes of one."""
        zero, scale = self.weights[f"{name}_zero_point"].astype(np.float32), self.weights[f"{name}_scale"]
        weight: np.ndarray = (self.weights[f"{name}_quantized"].astype(np.float32) - zero) * scale
        return weight


def _message_class() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="onnx_weights.proto", package="onnx_weights", syntax="proto2")
    kinds = descriptor_pb2.FieldDescriptorProto
    scalar = {name: getattr(kinds, f"TYPE_{name.upper()}") for name in ("string", "bytes", "float", "int32", "int64")}
    for message, fields in SCHEMA.items():
        described = file.message_type.add(name=message)
        for name, (number, kind, repeated) in fields.items():
            label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            field = described.field.add(name=name, number=number, label=label, type=scalar.get(kind, kinds.TYPE_MESSAGE))
            if kind not in scalar:
                field.type_name = f".onnx_weights.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("onnx_weights.Model"))


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph and all graphs within its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def read_onnx(path: Path) -> OnnxFile:
    """Every weight as an array of its own type, and what each node is fed with."""
    weights: dict[str, np.ndarray] = {}
    nodes: dict[str, list[str]] = {}
    for graph in _graphs(_message_class().FromString(path.read_bytes()).graph):
        for tensor in graph.initializer:
            kind = DTYPES[tensor.data_type]
            stored = tensor.float_data or tensor.int32_data or tensor.int64_data
            flat: np.ndarray = np.frombuffer(tensor.raw_data, kind) if tensor.raw_data else np.array(stored, kind)
            weights[tensor.name] = flat.reshape(tuple(tensor.dims))
        nodes |= {node.name: list(node.input) for node in graph.node}
    return OnnxFile(weights, nodes)
