"""One attention of a forward pass, as the tap sees it: its queries, keys, mask and bias."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from isoscope.core.site import Site
from isoscope.models.tapping.lineage import Lineage
from isoscope.models.tapping.tensor_node import Node, Rearrange


@dataclass(frozen=True)
class AttentionCall:
    """One attention of a forward pass: softmax(scale · q kᵀ + bias), row by row."""

    site: Site
    """`attention` or `cross_attention` of a stack's layer; no head."""
    query: Tensor
    """(b, h, t, e) as attention takes it, after rotary."""
    key: Tensor
    """(b, h_k, s, e); h is a multiple of h_k, and query head i uses key head i // (h // h_k)."""
    scale: float
    """Scores are scale · q kᵀ (+ bias)."""
    bias: Tensor | None
    """The additive part, which broadcasts to (b, h, t, s): a relative bias or a float mask; None if nothing is added."""
    mask: Tensor | None
    """bool, broadcasts to (b, h, t, s), True where a key is open; None if all are. A causal flag becomes a mask here."""
    scores: Tensor | None
    """(b, h, t, s), the input of softmax, mask and bias included, if the model writes attention out; else None."""
    plain_query: Tensor
    """As `query`, but before rotary. If queries are normalised, after the norm. The same tensor if there is no rotary."""
    plain_key: Tensor
    """As `key`, at the same point."""


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
        tensor, plain = form(given), line.unrotated()
        return cls(tensor, tensor if plain is None else form(plain), node, line)

    def without_copies(self) -> AttentionSide:
        """The side without the copies of key heads that a model with grouped queries makes."""
        copies, heads = self.line.count_repeats(), self.tensor.shape[1]
        if copies == 1 or heads % copies:
            return self
        grouped = self.tensor.unflatten(1, (-1, copies))
        if not bool((grouped == grouped[:, :, :1]).all()):  # repeated along another axis than the heads
            return self
        tensor = self.tensor[:, ::copies]
        return AttentionSide(tensor, tensor if self.plain is self.tensor else self.plain[:, ::copies], self.node, self.line)
