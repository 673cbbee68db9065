"""Models whose parameters are divided among processes: which of them can be watched, and leaving FSDP2 as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn

from isoscope.core.errors import IsoscopeError


def check_shards(module: nn.Module) -> None:
    """Refuse a module that a look cannot run: only FSDP2 (`fully_shard`) divides parameters so that each process runs the whole model."""
    # Types are compared by name, so none of these packages needs to be installed.
    held = [tensor for parameter in module.parameters() for tensor in (parameter, parameter.data)]
    by_fsdp = {id(parameter) for part in sharding_modules(module) for parameter in part.parameters()}
    divided = [parameter for parameter in module.parameters() if is_divided(parameter)]
    kind = (
        "FSDP1 (FullyShardedDataParallel)"
        if any(type(part).__name__ == "FullyShardedDataParallel" for part in module.modules())
        else "ZeRO-3"
        if any(hasattr(tensor, "ds_id") for tensor in held)
        else "tensor parallelism"
        if any(id(parameter) not in by_fsdp or _count_shards(parameter) > 1 for parameter in divided)
        else ""
    )
    if kind:
        raise IsoscopeError(
            f"This model's parameters are divided among processes by {kind}, and only those of FSDP2 (fully_shard) can be watched; save "
            "checkpoints and measure them with isoscope sweep."
        )


def sharding_modules(module: nn.Module) -> list[Any]:
    """The modules to which FSDP2 was applied."""
    return [part for part in module.modules() if any(kind.__name__ == "FSDPModule" for kind in type(part).__mro__)]


def is_divided(tensor: Any) -> bool:
    """Whether a parameter or a gradient is a DTensor."""
    return any(kind.__name__ == "DTensor" for kind in type(tensor).__mro__)


def _count_shards(parameter: Any) -> int:
    return sum(not placement.is_replicate() for placement in parameter.placements)


def class_name(module: nn.Module) -> str:
    """The name of a module's class, without the FSDP that `fully_shard` puts before it."""
    fsdp = [kind for kind in type(module).__mro__ if kind.__name__ == "FSDPModule"]
    return next(kind.__name__ for kind in type(module).__mro__ if not fsdp or not issubclass(kind, fsdp[0]))


@contextlib.contextmanager
def keep_shards(module: nn.Module) -> Iterator[None]:
    """Give whole parameters back after this context, where they were divided before it.

    After a forward pass the outermost parameters stay whole, because a backward pass is expected to need them. After a look none comes:
    the optimiser would step on the parts, and the next forward pass would use the old whole.
    """
    divided = [part for part in sharding_modules(module) if _is_divided_now(part)]
    try:
        yield
    finally:
        for part in divided:
            part.reshard()


def _is_divided_now(part: nn.Module) -> bool:
    """Whether the parameters that one application of FSDP2 manages are divided at this moment."""
    inner = {id(parameter) for nested in sharding_modules(part) if nested is not part for parameter in nested.parameters()}
    return any(is_divided(parameter) for parameter in part.parameters() if id(parameter) not in inner)
