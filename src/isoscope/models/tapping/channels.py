"""Which axis of a map holds its channels, learned from the layers that read and make it.

A state (batch, a, b, c) is a map with channels first or last, and its shape does not tell which. A linear layer or a layer norm reads the
last axis of what it is given; a convolution, a batch norm or a pooling reads axis 1. The trace follows axes through functions that keep or
move them, so that a layer that reads a permuted map tells about the map itself.
"""

# mypy: allow-subclassing-any
from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.models.model_errors import HookGuard
from isoscope.models.tapping.torch_functions import TRANSPOSITIONS, Role, float_tensors, role_of

READ_LAST = frozenset(["linear", "layer_norm", "rms_norm", "multi_head_attention_forward"])
"""Functions whose features are the last axis."""
NORMS = frozenset(["layer_norm", "rms_norm"])
"""Those of them that may read more axes than the last, and then tell nothing."""
READ_MAPS = {f"{name}{n}d": n for n in (1, 2, 3) for name in ("conv", "conv_transpose", "max_pool", "avg_pool", "adaptive_avg_pool")}
"""Functions over n spatial axes, which come last; the features come just before them."""
READ_SECOND = frozenset(["batch_norm", "group_norm", "instance_norm"])
"""Functions whose features are axis 1, however many come after it."""
RESHAPES = frozenset(["view", "reshape", "flatten", "unflatten", "view_as", "reshape_as"])
REDUCTIONS = frozenset(["mean", "sum", "amax", "var"])
_NAMES = """contiguous clone to float double half bfloat16 type type_as dropout dropout_ feature_dropout alpha_dropout detach cpu
    cuda relu relu_ relu6 gelu silu silu_ mish elu leaky_relu leaky_relu_ sigmoid hardswish hardsigmoid softplus erf exp sqrt rsqrt pow
    __pow__ square abs normalize roll flip pad cat concat concatenate"""
KEEP = frozenset(_NAMES.split())
"""Functions that leave every axis where it is."""
KEEPING = frozenset((Role.TIMES, Role.PLUS, Role.MINUS, Role.MASK, Role.BEND))
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)
"""Sizes that tell axes apart after a function has moved them."""


class Axis:
    """What an axis of one or more tensors is; axes that turn out to be the same one are joined."""

    def __init__(self) -> None:
        self._joined: Axis | None = None
        self.is_channel = False

    def root(self) -> Axis:
        """The axis that stands for all that are joined with this one."""
        axis = self
        while axis._joined is not None:
            axis = axis._joined
        return axis

    def join(self, other: Axis) -> None:
        """These two are the same axis."""
        root, joined = self.root(), other.root()
        if root is not joined:
            joined._joined = root
            root.is_channel |= joined.is_channel


Axes = tuple[Axis, ...]


class ChannelTrace(TorchFunctionMode):
    """A context around a forward pass, after which `find_layout` knows how the channels of each noted map lie."""

    def __init__(self) -> None:
        super().__init__()
        self.guard = HookGuard()
        self._see = self.guard.wrap(self._follow_call)
        self._known: dict[int, tuple[weakref.ref[Tensor], Axes]] = {}
        self.maps: dict[Site, tuple[tuple[int, ...], Axes]] = {}
        """Shape and axes of every state of four axes."""

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        self._known.clear()
        self.guard.raise_own_error()

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Call one function of torch, and follow the axes of what it was given to what it gave."""
        output = func(*args, **(kwargs or {}))
        self._see(func, args, kwargs or {}, output)
        return output

    def note(self, site: Site, state: Tensor) -> None:
        """Note a state whose layout will be asked for."""
        if state.dim() == 4:
            self.maps[site] = tuple(state.shape), self._axes_of(state)

    def find_layout(self, site: Site) -> str | None:
        """`first` or `last`; None if no layer tells, or if layers read the map in more than one way."""
        axes = self._read_axes(site)
        return {1: "first", 3: "last"}.get(axes[0]) if len(axes) == 1 else None

    def require_layout(self, site: Site) -> str:
        """`first` or `last`, or an error."""
        layout, (shape, _) = self.find_layout(site), self.maps[site]
        if layout is not None:
            return layout
        sizes = ", ".join(map(str, shape[1:]))
        agree = "the layers that read or make it do not agree on" if self._read_axes(site) else "no layer that reads or makes it tells"
        raise IsoscopeError(
            f"The state {site.label} has the shape (batch, {sizes}), and {agree} which axis holds the channels; give channels='first' or "
            "channels='last'."
        )

    def _read_axes(self, site: Site) -> tuple[int, ...]:
        return tuple(i for i, axis in enumerate(self.maps[site][1]) if i and axis.root().is_channel)

    def _axes_of(self, tensor: Tensor) -> Axes:
        ref, axes = self._known.get(id(tensor), (None, ()))
        if ref is not None and ref() is tensor:
            return axes
        return self._set_axes(tensor, tuple(Axis() for _ in tensor.shape))

    def _set_axes(self, tensor: Tensor, axes: Axes) -> Axes:
        self._known[id(tensor)] = weakref.ref(tensor), axes
        return axes

    def _follow_call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        role, name = role_of(func)
        if role is Role.SKIP:
            return
        given, made = list(float_tensors((*args, *kwargs.values()))), list(float_tensors((output,)))
        if not given or not made:
            return
        self._mark_features(name, args, kwargs, given)
        x, axes, shape = made[0], self._axes_of(given[0]), tuple(made[0].shape)
        if name in READ_LAST or name in READ_SECOND or name in READ_MAPS or name == "interpolate":
            if len(axes) == len(shape):  # features change, and are features still
                self._set_axes(x, axes)
        elif name in TRANSPOSITIONS or name in REDUCTIONS or name == "unsqueeze":
            plain = bool(args) and args[0] is given[0] and "out" not in kwargs
            self._set_axes(x, _move_axes(func, args[1:], kwargs, axes, len(shape)) if plain else tuple(Axis() for _ in shape))
        elif name in RESHAPES:
            self._set_axes(x, _reshape_axes(axes, tuple(given[0].shape), shape))
        elif name in KEEP or role in KEEPING or (name == "__getitem__" and _is_slicing(args[1])):
            for tensor in given:
                self._join_axes(x, tensor, any_size=role not in KEEPING)
        elif x is given[0]:  # it was written over, or turned in place: nothing is known of its axes any more
            self._set_axes(x, tuple(Axis() for _ in shape))

    def _join_axes(self, made: Tensor, given: Tensor, *, any_size: bool) -> None:
        """The axes of a tensor and of one that it was made from are the same, counted from the last."""
        both = zip(self._axes_of(made)[::-1], tuple(made.shape)[::-1], self._axes_of(given)[::-1], tuple(given.shape)[::-1], strict=False)
        for axis, size, other, there in both:
            # What is broadcast over an axis tells nothing about it; what is joined, padded or cut differs in size.
            if there > 1 and (any_size or there == size):
                axis.join(other)

    def _mark_features(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[Tensor]) -> None:
        """Mark the axis that a layer reads as features."""
        axes = self._axes_of(given[0])
        at: int | None = None
        if name in NORMS:
            normed = args[1] if len(args) > 1 else kwargs.get("normalized_shape", ())
            at = -1 if len(normed) == 1 else None
        elif name in READ_LAST:
            at = -1
        elif name in READ_MAPS:
            at = -1 - READ_MAPS[name]
        elif name in READ_SECOND or (name == "interpolate" and len(axes) > 2):
            at = 1
        if at is not None and -len(axes) <= at < len(axes):
            axes[at].root().is_channel = True


def _move_axes(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], axes: Axes, dims: int) -> Axes:
    """The axes after a function that does the same whatever the sizes: it is done to a tensor whose sizes are all different."""
    fresh = tuple(Axis() for _ in range(dims))
    if len(axes) > len(PRIMES):
        return fresh
    probe = func(torch.empty(PRIMES[: len(axes)], device="meta"), *args, **kwargs)
    if not isinstance(probe, Tensor) or probe.dim() != dims:
        return fresh
    return tuple(axes[PRIMES.index(size)] if size in PRIMES else new for size, new in zip(probe.shape, fresh, strict=True))


def _reshape_axes(axes: Axes, before: tuple[int, ...], after: tuple[int, ...]) -> Axes:
    """The axes after a reshape: in row-major order equal sizes at the front, and at the back, are the same axes."""
    most = min(len(before), len(after))
    front = next((i for i in range(most) if before[i] != after[i]), most)
    back = next((i for i in range(most - front) if before[-1 - i] != after[-1 - i]), most - front)
    middle = tuple(Axis() for _ in range(len(after) - front - back))
    return axes[:front] + middle + axes[len(axes) - back :]


def _is_slicing(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is Ellipsis or isinstance(part, slice) for part in parts)
