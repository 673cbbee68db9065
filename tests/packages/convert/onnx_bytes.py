"""ONNX files for tests, in the wire format of protobuf and by the field numbers of the ONNX specification."""

import numpy as np

TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int64": 7}


def varint(value):
    raw = b""
    while value > 127:
        raw, value = raw + bytes([value & 127 | 128]), value >> 7
    return raw + bytes([value])


def field(number, content):
    """A field that holds a number, or bytes."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor(name, array):
    array = np.asarray(array)
    dims = b"".join(field(1, size) for size in array.shape)
    return dims + field(2, TYPES[array.dtype.name]) + field(8, name.encode()) + field(9, array.tobytes())


def node(name, *inputs, branch=None):
    """A node; `branch`: a graph that is an attribute of it."""
    inside = b"" if branch is None else field(5, field(6, branch))
    return b"".join(field(1, given.encode()) for given in inputs) + field(3, name.encode()) + inside


def graph(nodes, tensors):
    return b"".join(field(1, each) for each in nodes) + b"".join(field(5, tensor(name, array)) for name, array in tensors.items())


def model(nodes, tensors):
    return field(7, graph(nodes, tensors))


def quantised(name, weight, scale=0.5, zero=3):
    """The three tensors of a matrix whose values are multiples of the scale."""
    stored = np.asarray(np.rint(weight / scale) + zero, np.uint8)
    return {f"{name}_quantized": stored, f"{name}_scale": np.float32([scale]), f"{name}_zero_point": np.uint8([zero])}
