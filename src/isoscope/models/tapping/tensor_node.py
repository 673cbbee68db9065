"""The nodes of the tensor graph: how a tensor was made, and, if it holds attention scores, of which queries and keys."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from isoscope.models.tapping.torch_functions import Role

Rearrange = Callable[[Tensor], Tensor]
Replay = tuple[Any, tuple[Any, ...], dict[str, Any], int | None]
"""A torch function, its arguments after the first, and which of its results is meant (None: its only one)."""


@dataclass(eq=False, slots=True)
class Node:
    """One tensor of the running block. The tensor itself is held only if it may be a query or key before rotary."""

    index: int
    """The order in which tensors were made."""
    role: Role
    parents: tuple[Node, ...]
    leaves: int
    """Which tensors from outside the block it derives from, one bit each, in the order in which they entered. A parameter has no bit."""
    shape: tuple[int, ...]
    ref: Callable[[], Tensor | None]
    replay: Replay | None = None
    """How to do to another tensor what was done to the parent."""
    held: Tensor | None = None
    parameter: bool = False
    scores: Scores | None = None

    @property
    def first(self) -> int:
        """The bit of the tensor that entered the block first, among those it derives from: the block's own input."""
        return self.leaves & -self.leaves

    @property
    def numel(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    @property
    def tensor(self) -> Tensor | None:
        """The tensor, if it still exists."""
        return self.ref() if self.held is None else self.held


@dataclass(eq=False, slots=True)
class Scores:
    """Attention scores that a model writes out, on their way from a product of queries and keys to a softmax."""

    index: int
    """The index of the product's node."""
    operands: tuple[Tensor, Tensor]
    nodes: tuple[Node, Node]
    forms: tuple[Rearrange, Rearrange]
    """How the operands become queries (…, t, e) and keys (…, s, e)."""
    lead: tuple[int, ...]
    """The sizes of the product's axes before t and s."""
    order: tuple[int, ...]
    """Which axes of the scores are (…, t, s)."""
    factor: float = 1.0
    factors: tuple[Tensor, ...] = ()
    """Factors that differ by head, as in cosine attention."""
    masked: bool = False
    biased: bool = False
    lost: bool = False
    """Whether axes were cut or joined, so that they are no longer those of queries and keys."""
