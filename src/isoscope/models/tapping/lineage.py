"""The tensors of a running block, and the way of a query or a key from the projection or norm that made it to attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from isoscope.models.tapping.torch_functions import Role, is_on_host

if TYPE_CHECKING:
    from isoscope.models.tapping.written_scores import Scores

Rearrange = Callable[[Tensor], Tensor]
Replay = tuple[Any, tuple[Any, ...], dict[str, Any], int | None]
"""A torch function, its arguments after the first, and which of its results is meant (None: its only one)."""
MOVES = frozenset((Role.SHAPE, Role.JOIN, Role.TIMES, Role.PLUS, Role.MINUS))
"""The functions that rotary is made of, and those between a projection and attention. None of them mixes features."""


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


@dataclass(frozen=True)
class Lineage:
    """The ancestors through which all of a tensor came, from itself back to the output of a projection or a norm."""

    nodes: list[Node]
    rotated: list[bool]
    """Whether rotary, or something like it, lies between a node and the next."""
    end: Node

    @property
    def weight_id(self) -> int | None:
        """The identity of the projection's parameter; None if there is none."""
        node: Node | None = self.end
        while node is not None:
            for parent in node.parents:
                if parent.parameter:
                    return id(parent.ref())
            node = next((parent for parent in node.parents if parent.leaves & self.nodes[0].first), None)
        return None

    def tensor_before_rotary(self) -> Tensor | None:
        """The tensor as it would be without rotary; None if it was never rotated, or if the tensor before rotary is gone.

        Views and scalings that came after rotary are applied to the tensor from before it.
        """
        if True not in self.rotated:
            return None
        last = len(self.rotated) - 1 - self.rotated[::-1].index(True)
        shape = self.nodes[last].shape
        before = next((node for node in self.nodes[last + 1 :] if node.shape == shape and node.tensor is not None), None)
        tensor = None if before is None else before.tensor
        for i in range(last - 1, -1, -1):
            node = self.nodes[i]
            if tensor is None:
                return None
            if node.replay is not None and not self.rotated[i]:
                func, rest, kwargs, result = node.replay
                output = func(tensor, *rest, **kwargs)
                tensor = output if result is None else output[result]
            elif node.shape != tuple(tensor.shape):
                return None
        return tensor

    def count_repeats(self) -> int:
        """How often its numbers are repeated on the way: grouped queries expand keys to the number of heads."""
        repeats = 1
        for child, parent in zip(self.nodes, self.nodes[1:], strict=False):
            if child.numel > parent.numel and parent.numel:
                repeats *= child.numel // parent.numel
        return repeats

    def repeats_heads(self, heads: int, copies: int) -> bool:
        """Whether an ancestor has these heads on axis 1, and the tensor made of it has copies of each on the axis after them."""
        return any(
            len(parent.shape) >= 3 and child.shape[:3] == (*parent.shape[:2], copies) and parent.shape[1] == heads
            for child, parent in zip(self.nodes, self.nodes[1:], strict=False)
        )

    def count_heads(self) -> int | None:
        """The number of heads in the first axis of a tensor (b · h, t, e): an ancestor still has them in an axis of their own."""
        if len(self.nodes[0].shape) != 3:
            return None
        folded, t, e = self.nodes[0].shape
        for node in self.nodes[1:]:
            shape = node.shape
            if len(shape) >= 4 and shape[-4] * shape[-3] == folded and set(shape[-2:]) == {t, e}:
                return shape[-3]
            if len(shape) == 3 and shape[-1] % e == 0 and shape[-1] > e and node.numel == self.nodes[0].numel:
                return shape[-1] // e
        return None


def trace_lineage(node: Node) -> Lineage:
    """Walk back from a tensor through functions that move, join and scale numbers, to one that mixes features.

    Rotary splits the way in two (x · cos + rotate(x) · sin) and joins it again. So the walk keeps a front of nodes and always expands the
    latest of them. When one node is left, everything came through it: it is the next of the lineage, and what lies in between is rotary
    if the front was ever wider than one node, or if it multiplied by a tensor from outside.
    """
    own, nodes = node.first, [node]
    rotated: list[bool] = []
    front, is_rotary = {node}, False
    while True:
        latest = max(front, key=lambda candidate: candidate.index)
        parents = [parent for parent in latest.parents if parent.leaves & own]
        foreign = [parent for parent in latest.parents if not parent.leaves & own]
        mixes = latest.role not in MOVES or not parents
        # A product with a parameter is a norm's weight: queries and keys are taken after it.
        if mixes or (latest.role is Role.TIMES and (len(parents) > 1 or any(not parent.leaves for parent in foreign))):
            return Lineage(nodes, rotated, latest)
        is_rotary = is_rotary or (latest.role is Role.TIMES and latest.replay is None)
        front.discard(latest)
        front.update(parents)
        if len(front) > 1:
            is_rotary = True
        else:
            nodes.append(next(iter(front)))
            rotated.append(is_rotary)
            is_rotary = False


@dataclass(frozen=True)
class AttentionSide:
    """The queries or the keys of a call, in the form (b, h, t, e)."""

    tensor: Tensor
    plain: Tensor
    node: Node
    line: Lineage

    @classmethod
    def from_tensor(cls, given: Tensor, node: Node, line: Lineage, form: Rearrange) -> AttentionSide:
        """A side from the tensor that attention was given; `form` brings it into (b, h, t, e)."""
        tensor, plain = form(given), line.tensor_before_rotary()
        return cls(tensor, tensor if plain is None else form(plain), node, line)

    def without_copies(self) -> AttentionSide:
        """The side without the copies of key heads that a model with grouped queries makes."""
        copies, heads = self.line.count_repeats(), self.tensor.shape[1]
        if copies == 1 or heads % copies:
            return self
        grouped = self.tensor.unflatten(1, (-1, copies))
        if is_on_host(self.tensor):
            if not bool((grouped == grouped[:, :, :1]).all()):  # repeated along another axis than the heads
                return self
        elif not self.line.repeats_heads(heads // copies, copies):
            return self
        tensor = self.tensor[:, ::copies]
        return AttentionSide(tensor, tensor if self.plain is self.tensor else self.plain[:, ::copies], self.node, self.line)
