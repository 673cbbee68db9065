"""Where the tensors of a block come from: which functions of torch made them, and from what.

Only metadata is kept, with weak references; a tensor itself is held where it may be a query or a key that rotary is about to turn.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from isoscope.models.scores import FOLLOWED, Scores, followed, product
from isoscope.models.torch_functions import CUTS, DIVISIONS, NEGATIONS, Called, Role, floats, number

MOVES = frozenset((Role.SHAPE, Role.JOIN, Role.TIMES, Role.PLUS, Role.MINUS))
"""What rotary is made of, and what lies between a projection and attention: nothing of it mixes features."""
Again = tuple[Any, tuple[Any, ...], dict[str, Any], int | None]


@dataclass(eq=False, slots=True)
class Node:
    """One tensor of the running block."""

    index: int
    role: Role
    parents: tuple[Node, ...]
    leaves: int
    """Which tensors from outside the block it derives from: a bit each, in the order in which they entered. Parameters are none."""
    shape: tuple[int, ...]
    ref: Callable[[], Tensor | None]
    again: Again | None = None
    """How to do to another tensor what was done to the parent: function, the other arguments, and which of its results."""
    held: Tensor | None = None
    parameter: bool = False
    scores: Scores | None = None

    @property
    def first(self) -> int:
        """The bit of the tensor that entered the block first, of those it derives from: the block's own input."""
        return self.leaves & -self.leaves

    @property
    def numel(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


class Provenance:
    """The nodes of the running block."""

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}
        self._held: list[Node] = []
        self._count = self._leaves = 0

    def clear(self) -> None:
        """Forget everything: a block has ended."""
        self._nodes.clear()
        self._held.clear()
        self._count = self._leaves = 0

    def seen(self, tensor: Tensor) -> Node | None:
        """The node of a tensor, where it has one."""
        node = self._nodes.get(id(tensor))
        return node if node is not None and node.ref() is tensor else None

    def node(self, tensor: Tensor) -> Node:
        """The node of a tensor; what has none entered the block from outside."""
        node = self.seen(tensor)
        if node is None and type(tensor) is not Tensor and isinstance(tensor, nn.Parameter):
            node = self._add(tensor, Role.OTHER, (), 0)
            node.parameter = True
        elif node is None:
            node = self._add(tensor, Role.OTHER, (), 1 << self._leaves)
            self._leaves += 1
        return node

    def _add(self, tensor: Tensor, role: Role, parents: tuple[Node, ...], leaves: int) -> Node:
        node = Node(self._count, role, parents, leaves, tuple(tensor.shape), weakref.ref(tensor))
        self._count += 1
        self._nodes[id(tensor)] = node
        return node

    def made(self, called: Called, output: Any) -> None:
        """Note what a function made of its arguments."""
        role = called.role
        outputs = list(floats((called.args[0] if called.name == "__setitem__" else output,)))
        if not outputs:
            return
        tensors = list(floats(called.values))
        if role is Role.JOIN:
            tensors = [t for t in tensors if t.numel()]  # an empty cache joins nothing
        if not tensors:
            return  # made from nothing: it enters where it meets the block's tensors
        parents = tuple([self.node(t) for t in tensors])
        leaves, scored = 0, False
        for parent in parents:
            leaves |= parent.leaves
            scored = scored or parent.scores is not None
        if role is Role.TIMES or called.name in CUTS:
            self._keep(role, parents)
        for which, part in enumerate(outputs):
            if part is tensors[0] and role is Role.SHAPE:
                continue  # nothing was done
            scores = None
            if role is Role.PRODUCT:
                scores = product(self._count, called, tensors, parents, part)
            elif scored and role in FOLLOWED:
                scores = followed(called, tensors, parents, part)
            node = self._add(part, role, parents, leaves)
            node.scores = scores
            if role is Role.SHAPE or role is Role.TIMES:
                node.again = _again(called, which if isinstance(output, tuple | list) else None)

    def _keep(self, role: Role, parents: tuple[Node, ...]) -> None:
        """Hold what may be turned: a tensor that is cut into parts, or multiplied by what comes from elsewhere."""
        if role is Role.SHAPE and len(parents[0].shape) >= 4:
            self._hold(parents[0])
        elif role is Role.TIMES and len(parents) == 2 and max(len(parent.shape) for parent in parents) >= 3:
            for node, other in (parents, parents[::-1]):
                if other.leaves and not other.leaves & node.first:
                    self._hold(node)

    def _hold(self, node: Node) -> None:
        """Hold a tensor, and those of which it is a view or a cast, as long as they are there."""
        while node.held is None and node.leaves:
            node.held = node.ref()
            if node.held is not None:
                self._held.append(node)
            if node.role is not Role.SHAPE:
                break
            node = node.parents[0]

    def written(self, tensor: Tensor) -> None:
        """A tensor is about to be written into: what is held of its memory is copied first."""
        if self._held:
            place = tensor.untyped_storage().data_ptr()
            for node in self._held:
                if node.held is not None and node.held.untyped_storage().data_ptr() == place:
                    node.held = node.held.clone()


def _again(called: Called, which: int | None) -> Again | None:
    if not (called.args and isinstance(called.args[0], Tensor)):
        return None
    if called.role is Role.SHAPE:
        return called.func, called.args[1:], called.kwargs, which
    if called.name in NEGATIONS:
        return torch.neg, (), {}, None
    by = number(called.args[1] if len(called.args) > 1 else called.kwargs.get("other"))
    return None if by is None else (torch.div if called.name in DIVISIONS else torch.mul, (by,), {}, None)


@dataclass(frozen=True)
class Lineage:
    """A tensor's ancestors that all of it came through, from itself to what a projection or a norm gave."""

    nodes: list[Node]
    turned: list[bool]
    """Whether rotary, or what is like it, lies between a node and the next."""
    end: Node

    @property
    def weight(self) -> int | None:
        """The parameter of the projection at its beginning."""
        node: Node | None = self.end
        while node is not None:
            for parent in node.parents:
                if parent.parameter:
                    return id(parent.ref())
            node = next((parent for parent in node.parents if parent.leaves & self.nodes[0].first), None)
        return None

    def plain(self) -> Tensor | None:
        """The tensor as it was before it was turned; None where it never was, or where that can no longer be had."""
        if True not in self.turned:
            return None
        last = len(self.turned) - 1 - self.turned[::-1].index(True)
        before = next((n for n in self.nodes[last + 1 :] if n.shape == self.nodes[last].shape and _alive(n) is not None), None)
        tensor = None if before is None else _alive(before)
        for i in range(last - 1, -1, -1):
            node = self.nodes[i]
            if tensor is None:
                return None
            if node.again is not None and not self.turned[i]:
                func, rest, kwargs, which = node.again
                made = func(tensor, *rest, **kwargs)
                tensor = made if which is None else made[which]
            elif node.shape != tuple(tensor.shape):
                return None
        return tensor

    def repeats(self) -> int:
        """How often its numbers are repeated on the way: grouped queries expand keys to the number of heads."""
        times = 1
        for child, parent in zip(self.nodes, self.nodes[1:], strict=False):
            if child.numel > parent.numel and parent.numel:
                times *= child.numel // parent.numel
        return times

    def heads(self) -> int | None:
        """The number of heads of a tensor (b · h, t, e) whose heads lie in its first axis."""
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


def _alive(node: Node) -> Tensor | None:
    return node.ref() if node.held is None else node.held


def lineage(node: Node) -> Lineage:
    """Walk back from a tensor through what moves, joins and scales numbers, to what mixes features."""
    own, nodes = node.first, [node]
    turned: list[bool] = []
    front, turns = {node}, False
    while True:
        latest = max(front, key=lambda one: one.index)
        parents = [parent for parent in latest.parents if parent.leaves & own]
        foreign = [parent for parent in latest.parents if not parent.leaves & own]
        mixes = latest.role not in MOVES or not parents
        if mixes or (latest.role is Role.TIMES and (len(parents) > 1 or any(not parent.leaves for parent in foreign))):
            return Lineage(nodes, turned, latest)
        turns = turns or (latest.role is Role.TIMES and latest.again is None)
        front.discard(latest)
        front.update(parents)
        if len(front) > 1:
            turns = True
        else:
            nodes.append(next(iter(front)))
            turned.append(turns)
            turns = False
