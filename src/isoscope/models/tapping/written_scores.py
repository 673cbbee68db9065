"""Follows scores from a product of queries and keys to a softmax, in attention that a model writes out.

A model may scale, mask, bias, transpose or reshape its scores before the softmax. Each step here updates a `Scores`: which axes are the
queries and the keys, by which factor the product was scaled, and whether anything was added. From that, the tap reconstructs
softmax(factor · q kᵀ + bias) without knowing the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from isoscope.models.tapping.lineage import Node, Rearrange
from isoscope.models.tapping.torch_functions import DIVISIONS, NEGATIONS, TRANSPOSITIONS, Role, TorchCall, is_on_host, scalar_value

FOLLOWED = frozenset((Role.SHAPE, Role.JOIN, Role.TIMES, Role.PLUS, Role.MINUS, Role.MASK, Role.BEND))
"""The functions that may lie between a product and its softmax."""
CLOSED = -5000.0
"""A number at or below this, added to a score, closes its position: models write masks as −1e4, −1e9 or the smallest number of a dtype."""


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


def start_scores(index: int, call: TorchCall, tensors: list[Tensor], nodes: tuple[Node, ...], output: Tensor) -> Scores | None:
    """The scores of a product of two activations; None for any other product, such as a projection: parameters have no leaves."""
    if call.name == "baddbmm":
        tensors, nodes = tensors[-2:], nodes[-2:]  # the first argument is what is added
    if call.name == "__rmatmul__":
        tensors, nodes = tensors[::-1], nodes[::-1]
    if len(tensors) != 2 or not all(node.leaves for node in nodes) or any(tensor.dim() < 2 for tensor in tensors):
        return None
    forms: tuple[Rearrange, Rearrange] = (lambda x: x, lambda x: x.mT)
    order = tuple(range(output.dim()))
    if call.name == "einsum":
        axes = _einsum_axes(call.args[0], *tensors)
        if axes is None:
            return None
        left, right, order = axes
        forms = (lambda x: x.permute(left), lambda x: x.permute(right))
    scores = Scores(index, (tensors[0], tensors[1]), (nodes[0], nodes[1]), forms, tuple(output.permute(order).shape[:-2]), order)
    if call.name == "baddbmm":
        scores.factor, scores.biased = float(call.kwargs.get("alpha", 1)), bool(call.kwargs.get("beta", 1))
    return scores


def _einsum_axes(equation: Any, a: Tensor, b: Tensor) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """The axes of the operands and of the result, ordered as (…, t, e), (…, s, e), (…, t, s); None if it is no such product.

    >>> _einsum_axes("bthe,bshe->bhts", torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4))
    ((0, 2, 1, 3), (0, 2, 1, 3), (0, 1, 2, 3))
    """
    inputs, _, result = str(equation).replace(" ", "").replace("...", "").partition("->")
    left, _, right = inputs.partition(",")
    if "..." in str(equation):  # give the axes that the dots stand for letters of their own
        letters = "".join(chr(ord("A") + i) for i in range(a.dim() - len(left)))
        left, right, result = (letters + labels for labels in (left, right, result))
    if (len(left), len(right)) != (a.dim(), b.dim()):
        return None
    shared = [x for x in result if x in left and x in right]
    summed = [x for x in left if x in right and x not in result]
    rows, columns = [x for x in result if x in left and x not in right], [x for x in result if x in right and x not in left]
    if not (len(summed) == len(rows) == len(columns) == 1 and len(left) == len(right) == len(shared) + 2):
        return None
    return (
        tuple(left.index(x) for x in (*shared, *rows, *summed)),
        tuple(right.index(x) for x in (*shared, *columns, *summed)),
        tuple(result.index(x) for x in (*shared, *rows, *columns)),
    )


def follow_scores(call: TorchCall, tensors: list[Tensor], nodes: tuple[Node, ...], output: Tensor) -> Scores:
    """The scores after one more function.

    If several scores are added, as in disentangled attention, those of the earliest product are followed and the others are their bias.
    """
    scored = [(node.scores, node, tensor) for node, tensor in zip(nodes, tensors, strict=True) if node.scores is not None]
    scores, node, tensor = min(scored, key=lambda entry: entry[0].index)
    others = [value for value in call.values if value is not tensor]
    if scores.lost:
        return scores
    if call.role is Role.SHAPE:
        return _reshape_scores(call, scores, node, output)
    if call.role is Role.JOIN or output.dim() != len(node.shape):
        return scores if tuple(output.shape) == node.shape else replace(scores, lost=True)
    if len(scored) > 1 or call.role is Role.BEND:
        return replace(scores, biased=True)
    if call.role is Role.TIMES:
        return _scale_scores(call, scores, tensor, others)
    if call.role is Role.MASK:
        closes = any((value := scalar_value(other)) is not None and value <= CLOSED for other in others)
        return replace(scores, masked=True, biased=scores.biased or not closes)
    if call.role is Role.MINUS and (call.name in ("rsub", "__rsub__") or call.args[0] is not tensor):  # something minus the scores
        return replace(scores, masked=True, biased=True, factor=-scores.factor)
    closes = len(others) == 1 and _is_mask(others[0], 1 if call.role is Role.PLUS else -1)
    return replace(scores, masked=True, biased=scores.biased or not closes)


def _is_mask(added: Any, sign: int) -> bool:
    """Whether every number that is added to scores is 0 or closes a position: then it is a mask, and no bias. Of a tensor that is not on
    the host nothing is known."""
    return isinstance(added, Tensor) and is_on_host(added) and bool(((added == 0) | (sign * added <= CLOSED)).all())


def _scale_scores(call: TorchCall, scores: Scores, tensor: Tensor, others: list[Any]) -> Scores:
    if call.name in NEGATIONS:
        return replace(scores, factor=-scores.factor)
    divides = call.name in DIVISIONS
    if len(others) != 1 or (divides and call.args[0] is not tensor):
        return replace(scores, biased=True)
    by = scalar_value(others[0])
    if by is not None:
        return replace(scores, factor=scores.factor / by if divides else scores.factor * by)
    # A factor per head or per row can be moved into the queries, but only while the axes are still those of the product.
    in_order = scores.order == tuple(range(tensor.dim())) and tensor.dim() - 2 == len(scores.lead)
    if in_order and isinstance(others[0], Tensor) and others[0].shape[-1:] in ((), (1,)):
        return replace(scores, factors=(*scores.factors, 1 / others[0] if divides else others[0]))
    return replace(scores, biased=True)


def _reshape_scores(call: TorchCall, scores: Scores, node: Node, output: Tensor) -> Scores:
    """The scores after a view, a cast or a transposition."""
    if call.name in TRANSPOSITIONS:
        # Where each axis went is read off a tensor without memory whose axes all differ in size.
        sizes = torch.empty(tuple(range(2, len(node.shape) + 2)), device="meta")
        new_axis = {size - 2: axis for axis, size in enumerate(call.func(sizes, *call.args[1:], **call.kwargs).shape)}
        return replace(scores, order=tuple(new_axis[axis] for axis in scores.order))
    if tuple(output.shape) == node.shape:
        return scores
    # Batch and heads may be folded into one axis, or unfolded, as long as the axes of queries and keys stay last.
    in_order = scores.order == tuple(range(len(node.shape)))
    if in_order and tuple(output.shape[-2:]) == node.shape[-2:] and output.numel() == node.numel:
        return replace(scores, order=tuple(range(output.dim())))
    return replace(scores, lost=True)
