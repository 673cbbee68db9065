"""The graph of the tensors of a running block: which torch functions made them, and from which tensors.

The attention tap asks it three things: whether a key derives from the block's own input (self-attention) or not (cross-attention), which
tensor a query or key was before rotary turned it, and whether a softmax is over scores. Shapes, roles and weak references are enough for
that. A strong reference would keep every activation of a block alive, so a tensor is held only if rotary may be about to turn it.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor, nn

from isoscope.models.tapping.lineage import Node, Replay
from isoscope.models.tapping.torch_functions import CUTS, DIVISIONS, NEGATIONS, Role, TorchCall, float_tensors
from isoscope.models.tapping.written_scores import FOLLOWED, follow_scores, start_scores


class TensorGraph:
    """The nodes of the running block."""

    def __init__(self) -> None:
        # By id(tensor). An id can be used again after a tensor dies, so a look-up also checks that the weak reference is to this tensor.
        self._nodes: dict[int, Node] = {}
        self._held: list[Node] = []
        self._count = self._leaves = 0

    def clear(self) -> None:
        """Forget everything, at the end of a block."""
        self._nodes.clear()
        self._held.clear()
        self._count = self._leaves = 0

    def find_node(self, tensor: Tensor) -> Node | None:
        """The node of a tensor, if it has one."""
        node = self._nodes.get(id(tensor))
        return node if node is not None and node.ref() is tensor else None

    def node_of(self, tensor: Tensor) -> Node:
        """The node of a tensor. A tensor that has none is a parameter, or has just entered the block from outside: it becomes a leaf."""
        node = self.find_node(tensor)
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

    def record_call(self, call: TorchCall, output: Any) -> None:
        """Add what a function made of its arguments."""
        role = call.role
        outputs = list(float_tensors((call.args[0] if call.name == "__setitem__" else output,)))
        if not outputs:
            return
        tensors = list(float_tensors(call.values))
        if role is Role.JOIN:
            tensors = [tensor for tensor in tensors if tensor.numel()]  # an empty cache joins nothing
        if not tensors:
            return  # made from nothing: it becomes a leaf when it meets the block's tensors
        parents = tuple([self.node_of(tensor) for tensor in tensors])
        leaves, scored = 0, False
        for parent in parents:
            leaves |= parent.leaves
            scored = scored or parent.scores is not None
        if role is Role.TIMES or call.name in CUTS:
            self._hold_before_rotary(role, parents)
        for i, part in enumerate(outputs):
            if part is tensors[0] and role is Role.SHAPE:
                continue  # the function returned its argument, as `contiguous` often does
            scores = None
            if role is Role.PRODUCT:
                scores = start_scores(self._count, call, tensors, parents, part)
            elif scored and role in FOLLOWED:
                scores = follow_scores(call, tensors, parents, part)
            node = self._add(part, role, parents, leaves)
            node.scores = scores
            if role is Role.SHAPE or role is Role.TIMES:
                node.replay = _make_replay(call, i if isinstance(output, tuple | list) else None)

    def _hold_before_rotary(self, role: Role, parents: tuple[Node, ...]) -> None:
        """Hold a tensor that rotary may be about to turn.

        Rotary cuts a tensor (b, h, t, e) into halves, or multiplies it by sines and cosines, which do not derive from the block's input.
        """
        if role is Role.SHAPE and len(parents[0].shape) >= 4:
            self._hold(parents[0])
        elif role is Role.TIMES and len(parents) == 2 and max(len(parent.shape) for parent in parents) >= 3:
            for node, other in (parents, parents[::-1]):
                if other.leaves and not other.leaves & node.first:
                    self._hold(node)

    def _hold(self, node: Node) -> None:
        """Hold a tensor and those it is a view or a cast of, if they still exist: `Lineage.tensor_before_rotary` may need any of them."""
        while node.held is None and node.leaves:
            node.held = node.ref()
            if node.held is not None:
                self._held.append(node)
            if node.role is not Role.SHAPE:
                break
            node = node.parents[0]

    def copy_before_write(self, tensor: Tensor) -> None:
        """Copy held tensors that share memory with a tensor that is about to be written to: some models apply rotary in place."""
        if self._held:
            address = tensor.untyped_storage().data_ptr()
            for node in self._held:
                if node.held is not None and node.held.untyped_storage().data_ptr() == address:
                    node.held = node.held.clone()


def _make_replay(call: TorchCall, result: int | None) -> Replay | None:
    """How to repeat a view or a scaling on another tensor; None if the call multiplies by more than a number."""
    if not (call.args and isinstance(call.args[0], Tensor)):
        return None
    if call.role is Role.SHAPE:
        return call.func, call.args[1:], call.kwargs, result
    if call.name in NEGATIONS:
        return torch.neg, (), {}, None
    by = call.args[1] if len(call.args) > 1 else call.kwargs.get("other")
    is_number = by.numel() == 1 and not by.is_complex() if isinstance(by, Tensor) else isinstance(by, int | float)
    return (torch.div if call.name in DIVISIONS else torch.mul, (by,), {}, None) if is_number else None
