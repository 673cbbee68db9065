"""Scores on their way from a product of queries and keys to a softmax, in attention that a model writes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from isoscope.models.torch_functions import DIVISIONS, NEGATIONS, TRANSPOSITIONS, Called, Role, number

if TYPE_CHECKING:
    from isoscope.models.provenance import Node

Form = Callable[[Tensor], Tensor]
FOLLOWED = frozenset((Role.SHAPE, Role.JOIN, Role.TIMES, Role.PLUS, Role.MINUS, Role.MASK, Role.BEND))
"""What may lie between a product and its softmax."""
CLOSED = -5000.0
"""What is added to a score closes its position at or below this: models write masks as −1e4, −1e9 or the smallest number of a dtype."""


@dataclass(eq=False, slots=True)
class Scores:
    """What becomes of a product of two activations."""

    index: int
    """When the product was made."""
    operands: tuple[Tensor, Tensor]
    nodes: tuple[Node, Node]
    forms: tuple[Form, Form]
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

    def but(self, **changes: Any) -> Scores:
        """The same with changes."""
        return Scores(**{name: getattr(self, name) for name in self.__slots__} | changes)


def product(index: int, called: Called, tensors: list[Tensor], nodes: tuple[Node, ...], output: Tensor) -> Scores | None:
    """The scores that a product begins, if it is one of two activations; a projection multiplies by parameters."""
    if called.name == "baddbmm":
        tensors, nodes = tensors[-2:], nodes[-2:]
    if called.name == "__rmatmul__":
        tensors, nodes = tensors[::-1], nodes[::-1]
    if len(tensors) != 2 or not all(node.leaves for node in nodes) or any(t.dim() < 2 for t in tensors):
        return None
    forms: tuple[Form, Form] = (lambda x: x, lambda x: x.mT)
    order = tuple(range(output.dim()))
    if called.name == "einsum":
        axes = _einsum(called.args[0], *tensors)
        if axes is None:
            return None
        left, right, order = axes
        forms = (lambda x: x.permute(left), lambda x: x.permute(right))
    scores = Scores(index, (tensors[0], tensors[1]), (nodes[0], nodes[1]), forms, tuple(output.permute(order).shape[:-2]), order)
    if called.name == "baddbmm":
        scores.factor, scores.biased = float(called.kwargs.get("alpha", 1)), bool(called.kwargs.get("beta", 1))
    return scores


def _einsum(equation: Any, a: Tensor, b: Tensor) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """How the axes of the operands and of the result are ordered as (…, t, e), (…, s, e), (…, t, s); None where it is no such product.

    >>> _einsum("bthe,bshe->bhts", torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4))
    ((0, 2, 1, 3), (0, 2, 1, 3), (0, 1, 2, 3))
    """
    inputs, _, result = str(equation).replace(" ", "").replace("...", "").partition("->")
    left, _, right = inputs.partition(",")
    if "..." in str(equation):
        more = "".join(chr(ord("A") + i) for i in range(a.dim() - len(left)))
        left, right, result = (more + labels for labels in (left, right, result))
    if (len(left), len(right)) != (a.dim(), b.dim()):
        return None
    shared = [x for x in result if x in left and x in right]
    summed = [x for x in left if x in right and x not in result]
    rows, columns = ([x for x in result if x in one and x not in other] for one, other in ((left, right), (right, left)))
    if not (len(summed) == len(rows) == len(columns) == 1 and len(left) == len(right) == len(shared) + 2):
        return None
    return (
        tuple(left.index(x) for x in (*shared, *rows, *summed)),
        tuple(right.index(x) for x in (*shared, *columns, *summed)),
        tuple(result.index(x) for x in (*shared, *rows, *columns)),
    )


def followed(called: Called, tensors: list[Tensor], nodes: tuple[Node, ...], output: Tensor) -> Scores:
    """The scores after one more step. Of several that are added those of the earliest product go on, and the others are its bias."""
    found = [(one.scores, one, tensor) for one, tensor in zip(nodes, tensors, strict=True) if one.scores is not None]
    scores, node, own = min(found, key=lambda each: each[0].index)
    others = [value for value in called.values if value is not own]
    if scores.lost:
        return scores
    if called.role is Role.SHAPE:
        return _shaped(called, scores, node, output)
    if called.role is Role.JOIN or output.dim() != len(node.shape):
        return scores if tuple(output.shape) == node.shape else scores.but(lost=True)
    if len(found) > 1 or called.role is Role.BEND:
        return scores.but(biased=True)
    if called.role is Role.TIMES:
        return _times(called, scores, own, others)
    if called.role is Role.MASK:
        closes = any((value := number(other)) is not None and value <= CLOSED for other in others)
        return scores.but(masked=True, biased=scores.biased or not closes)
    flips = called.role is Role.MINUS and (called.name in ("rsub", "__rsub__") or called.args[0] is not own)
    if flips:
        return scores.but(masked=True, biased=True, factor=-scores.factor)
    closes = len(others) == 1 and _closes(others[0], 1 if called.role is Role.PLUS else -1)
    return scores.but(masked=True, biased=scores.biased or not closes)


def _closes(added: Any, sign: int) -> bool:
    """Whether what is added to scores is 0, or so low that it closes a position: a mask, and no bias."""
    return isinstance(added, Tensor) and bool(((added == 0) | (sign * added <= CLOSED)).all())


def _times(called: Called, scores: Scores, own: Tensor, others: list[Any]) -> Scores:
    if called.name in NEGATIONS:
        return scores.but(factor=-scores.factor)
    under = called.name in DIVISIONS
    if len(others) != 1 or (under and called.args[0] is not own):
        return scores.but(biased=True)
    by = number(others[0])
    if by is not None:
        return scores.but(factor=scores.factor / by if under else scores.factor * by)
    straight = scores.order == tuple(range(own.dim())) and own.dim() - 2 == len(scores.lead)
    if straight and isinstance(others[0], Tensor) and others[0].shape[-1] == 1:
        return scores.but(factors=(*scores.factors, 1 / others[0] if under else others[0]))
    return scores.but(biased=True)


def _shaped(called: Called, scores: Scores, node: Node, output: Tensor) -> Scores:
    """After a view, a cast or a transposition; the axes of a transposition are read off a tensor of distinct sizes."""
    if called.name in TRANSPOSITIONS:
        sizes = torch.empty(tuple(range(2, len(node.shape) + 2)), device="meta")
        place = {size - 2: axis for axis, size in enumerate(called.func(sizes, *called.args[1:], **called.kwargs).shape)}
        return scores.but(order=tuple(place[axis] for axis in scores.order))
    if tuple(output.shape) == node.shape:
        return scores
    straight = scores.order == tuple(range(len(node.shape)))
    if straight and tuple(output.shape[-2:]) == node.shape[-2:] and output.numel() == node.numel:
        return scores.but(order=tuple(range(output.dim())))
    return scores.but(lost=True)
