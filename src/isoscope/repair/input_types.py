"""What a repair takes: arrays, frames, and torch tensors, which come back as tensors.

Who passes a tensor or a frame has imported its library already, so nothing here imports one.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from isoscope.repair.repair_errors import RepairError
from isoscope.statistics.kernel import as_block

ARRAYS = (np.float64, np.float32, np.float16)
TENSORS = ("float64", "float32", "float16", "bfloat16")


def is_tensor(X: object) -> bool:
    """Whether X is a torch tensor.

    >>> is_tensor(np.zeros(3))
    False
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(X, torch.Tensor)


def as_array(X: Any) -> Any:
    """A tensor as an array of float32 or float64 on the host, without its gradient; anything else unchanged."""
    if not is_tensor(X):
        return X
    if X.is_nested:
        raise RepairError("X must be one tensor (n, d); it is a nested tensor. Pass torch.cat(X.unbind()).")
    if "strided" not in str(X.layout):
        raise RepairError(f"X must be a dense tensor; its layout is {X.layout}. Pass X.to_dense().")
    if str(X.dtype).removeprefix("torch.") not in TENSORS:
        raise RepairError(f"X must be a tensor of {', '.join(TENSORS[:-1])} or {TENSORS[-1]}; it holds {X.dtype}. Convert it first.")
    if X.is_meta:
        raise RepairError("X must hold numbers; a tensor on the device 'meta' has only a shape.")
    return as_block(X.as_subclass(sys.modules["torch"].Tensor))


def as_given(out: Any, X: Any) -> Any:
    """An array as a tensor on the device of X if X is a tensor: numbers in the type of X, indices in int64. Anything else unchanged."""
    if not is_tensor(X) or not isinstance(out, np.ndarray):
        return out
    return X.new_tensor(out, dtype=None if out.dtype.kind == "f" else sys.modules["torch"].int64)


def array_types(X: Any) -> Any:
    """The types of numpy that X may be read as without conversion.

    scikit-learn reads every polars frame as float64. The type also says how much of X is rounding, so it should be that of its columns.
    """
    polars = sys.modules.get("polars")
    common = X.head(0).to_numpy().dtype if polars is not None and isinstance(X, polars.DataFrame) else None
    return common if common in ARRAYS else ARRAYS
