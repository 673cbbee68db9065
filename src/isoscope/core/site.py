"""Where a tensor is tapped."""

from __future__ import annotations

from dataclasses import dataclass

VECTORS = ("query", "key", "rotated_query", "rotated_key", "cross_query", "cross_key")
"""Queries and keys, a site per head; after a norm of queries and keys, if there is one, and before rotary unless the kind says so."""
WITHOUT = ("mean_query", "1_dimension", "2_dimensions", "3_dimensions")
"""What may be taken out of queries before their attention is computed again."""
ROWS = tuple(kind + part for kind in ("attention", "cross_attention") for part in ("", *(f"_without_{what}" for what in WITHOUT)))
"""Rows of attention, a site a head: as the model computes them, and on request with something taken out."""
ATTENTION = (*VECTORS, *ROWS)
"""Every kind that the attention tap gives."""

KINDS = (
    "input_embedding",
    *ATTENTION,
    "before_norm",
    "after_norm",
    "before_activation",
    "after_activation",
    "hidden",
    "map",
    "final",
    "output_embedding",
)
"""Every kind of site, in the order in which a table lists them."""

STACKS = ("characters", "encoder", "backbone", "decoder")
"""Stacks in the order in which an input passes through them; others come after."""
INNER = ("before_norm", "after_norm", "before_activation", "after_activation")
"""The kinds within a block: of these sums and norms are kept, and second moments only where asked for."""


def stack_order(stack: str) -> tuple[int, str]:
    """A key that puts stacks in the order in which a signal passes through them: an encoder before its decoder.

    >>> sorted(["decoder", "other", "encoder", "characters"], key=stack_order)
    ['characters', 'encoder', 'decoder', 'other']
    """
    return STACKS.index(stack) if stack in STACKS else len(STACKS), stack


@dataclass(frozen=True)
class Site:
    """One place in a model whose vectors are measured.

    Hidden layer 0 enters the first block, layer L leaves the L-th block call, before any final norm. `final` is the state
    after the final norm, if there is one; its layer is one more than that of the last block. The embedding tables have no
    layer. In a convolutional block the states around its last norm and its last activation are sites too; a `map` is a hidden
    state flattened to one vector per image.

    >>> Site("encoder", "hidden", 3).label
    'encoder.hidden.3'
    >>> Site.parse("encoder.hidden.3") == Site("encoder", "hidden", 3)
    True
    """

    stack: str
    kind: str
    layer: int | None = None
    head: int | None = None

    @property
    def label(self) -> str:
        """The site as one word; `parse` reads it back."""
        parts = [self.stack, self.kind]
        if self.layer is not None:
            parts.append(str(self.layer))
        if self.head is not None:
            parts.append(str(self.head))
        return ".".join(parts)

    @classmethod
    def parse(cls, label: str) -> Site:
        """The site that `label` names."""
        stack, kind, *numbers = label.split(".")
        layer, head = ([int(number) for number in numbers] + [None, None])[:2]
        return cls(stack, kind, layer, head)

    @property
    def order(self) -> tuple[int, str, int, int, int]:
        """A key that sorts sites as a reader expects them: by stack, then by depth."""
        first = {"input_embedding": -2, "output_embedding": 1 << 30}
        depth = first.get(self.kind, -1 if self.layer is None else self.layer)
        return *stack_order(self.stack), depth, KINDS.index(self.kind) if self.kind in KINDS else len(KINDS), self.head or 0
