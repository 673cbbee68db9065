"""The role of each torch function between a projection and a softmax: moving, scaling, masking, multiplying, mixing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from torch import Tensor


class Role(Enum):
    """What a function does to the features of a tensor."""

    SKIP = "nothing to a tensor"
    SHAPE = "views, parts, copies and casts"
    JOIN = "several tensors side by side"
    TIMES = "·, ÷ and the sign"
    PLUS = "+"
    MINUS = "−"
    MASK = "masks"
    BEND = "acts on each number by itself"
    PRODUCT = "multiplies matrices"
    ATTENTION = "attends"
    OTHER = "anything else, which mixes features"


DIVISIONS = frozenset(["div", "divide", "div_", "divide_", "true_divide", "true_divide_", "__truediv__", "__itruediv__"])
NEGATIONS = frozenset(["neg", "negative", "neg_", "negative_", "__neg__"])
TRANSPOSITIONS = frozenset(["permute", "transpose", "swapaxes", "swapdims", "movedim", "moveaxis", "t", "T", "mT"])
CUTS = frozenset(["__getitem__", "chunk", "split", "split_with_sizes", "tensor_split", "unbind", "narrow", "select", "view_as_complex"])
NAMES = {
    Role.SKIP: """size dim numel is_floating_point is_complex data_ptr element_size stride get_device is_contiguous untyped_storage
        storage_offset ndimension nelement item tolist is_inference __len__ __bool__ __repr__ __format__ __hash__""",
    Role.SHAPE: """view reshape flatten unflatten contiguous clone to float double half bfloat16 type type_as squeeze unsqueeze expand
        expand_as broadcast_to dropout dropout_ view_as reshape_as view_as_real detach repeat_interleave repeat tile index_select cpu
        cuda squeeze_ unsqueeze_ data real""",
    Role.JOIN: "cat concat concatenate stack hstack vstack __setitem__",
    Role.TIMES: "mul multiply mul_ multiply_ __mul__ __rmul__ __imul__",
    Role.PLUS: "add add_ __add__ __radd__ __iadd__",
    Role.MINUS: "sub subtract sub_ subtract_ __sub__ __isub__ rsub __rsub__",
    Role.MASK: "masked_fill masked_fill_ where",
    Role.BEND: "tanh tanh_ clamp clamp_ clip clip_ clamp_min clamp_max maximum minimum max min nan_to_num nan_to_num_ hardtanh",
    Role.PRODUCT: "matmul bmm baddbmm einsum __matmul__ __rmatmul__ mm",
    Role.ATTENTION: "softmax special_softmax scaled_dot_product_attention multi_head_attention_forward",
}
ROLES = {name: role for role, names in NAMES.items() for name in names.split()}
ROLES |= dict.fromkeys(TRANSPOSITIONS | CUTS, Role.SHAPE) | dict.fromkeys(DIVISIONS | NEGATIONS, Role.TIMES)
"""The role of each function by its name. A function that is not here counts as one that mixes features, which is always safe."""

# A forward pass calls a few hundred functions thousands of times each: a dictionary is much quicker than looking up their names.
_known_roles: dict[Any, tuple[Role, str]] = {}


def role_of(func: Any) -> tuple[Role, str]:
    """The role and the name of a torch function.

    >>> import torch
    >>> role_of(torch.bmm)
    (<Role.PRODUCT: 'multiplies matrices'>, 'bmm')
    """
    known = _known_roles.get(func)
    if known is None:
        name = getattr(func, "__name__", "")
        if name == "__get__":  # reads an attribute of a tensor; few attributes are tensors
            name = func.__self__.__name__
            known = ROLES.get(name, Role.SKIP), name
        else:
            known = ROLES.get(name, Role.OTHER), name
        _known_roles[func] = known
    return known


@dataclass(eq=False, slots=True)
class TorchCall:
    """A torch function with its arguments."""

    role: Role
    name: str
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def values(self) -> tuple[Any, ...]:
        """All its arguments."""
        return (*self.args, *self.kwargs.values()) if self.kwargs else self.args

    @property
    def writes(self) -> bool:
        """Whether it writes into its first argument: torch ends the names of such functions with one underscore."""
        return self.name == "__setitem__" or (self.name[-1:] == "_" and self.name[-2:] != "__")


def float_tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors of real or complex numbers among values, and in lists among them."""
    for value in values:
        if isinstance(value, Tensor):
            if value.is_floating_point() or value.is_complex():
                yield value
        elif isinstance(value, tuple | list):
            yield from float_tensors(value)


HOST_DEVICES = ("cpu",)
"""The types of device whose values the host may look at without waiting, and whose states compiled code on the host reduces."""


def is_on_host(tensor: Tensor) -> bool:
    """Whether the host may look at the values of a tensor. Asking a device for a value makes both wait."""
    return tensor.device.type in HOST_DEVICES


def scalar_value(value: Any) -> float | None:
    """The number that a value holds, be it a number or a tensor of one element on the host; None for anything else.

    >>> scalar_value(2), scalar_value("2")
    (2.0, None)
    """
    if isinstance(value, Tensor):
        return float(value.detach()) if value.numel() == 1 and not value.is_complex() and is_on_host(value) else None
    return float(value) if isinstance(value, int | float) else None
