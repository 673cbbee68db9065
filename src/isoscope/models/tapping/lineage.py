"""The way of a query or a key, from the projection or norm that made it to attention."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from isoscope.models.tapping.tensor_node import Node
from isoscope.models.tapping.torch_functions import Role

MOVES = frozenset((Role.SHAPE, Role.JOIN, Role.TIMES, Role.PLUS, Role.MINUS))
"""The functions that rotary is made of, and those between a projection and attention. None of them mixes features."""


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

    def unrotated(self) -> Tensor | None:
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


def lineage(node: Node) -> Lineage:
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
