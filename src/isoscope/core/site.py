"""Site: a place in a model at which vectors are measured."""

from __future__ import annotations

from dataclasses import dataclass

QUERY_KEY_KINDS = ("query", "key", "rotated_query", "rotated_key", "cross_query", "cross_key")
"""Queries and keys, one site per head: after a query-key norm, if there is one, and before rotary unless the kind says so."""
ABLATIONS = ("mean_query", "1_dimension", "2_dimensions", "3_dimensions")
"""The parts that can be removed from queries before their attention is computed again."""
ATTENTION_ROW_KINDS = tuple(
    kind + ending for kind in ("attention", "cross_attention") for ending in ("", *(f"_without_{part}" for part in ABLATIONS))
)
"""Rows of attention, one site per head: as the model computes them and, on request, with parts of the queries removed."""
ATTENTION_KINDS = (*QUERY_KEY_KINDS, *ATTENTION_ROW_KINDS)
"""Every kind of site that the attention tap measures."""

KINDS = (
    "input_embedding",
    *ATTENTION_KINDS,
    "before_norm",
    "after_norm",
    "before_activation",
    "after_activation",
    "hidden",
    "map",
    "final",
    "output_embedding",
)
"""Every kind of site, in the order of the table."""

STACKS = ("characters", "encoder", "backbone", "decoder")
"""Stacks in the order in which an input passes through them. Other names come last."""
INNER_KINDS = ("before_norm", "after_norm", "before_activation", "after_activation")
"""Sites within a block. They keep sums and norms; second moments only on request."""


def stack_order(stack: str) -> tuple[int, str]:
    """A sort key for stacks: the order in which an input passes through them, for example an encoder before its decoder.

    >>> sorted(["decoder", "other", "encoder", "characters"], key=stack_order)
    ['characters', 'encoder', 'decoder', 'other']
    """
    return STACKS.index(stack) if stack in STACKS else len(STACKS), stack


@dataclass(frozen=True)
class Site:
    """One place in a model at which vectors are measured.

    Hidden layer 0 is the input of the first block; layer L is the output of the L-th block call, before any final norm. `final` is
    the state after the final norm, if there is one, and its layer is one more than that of the last block. Embedding tables have
    no layer. In a convolutional block the states around its last norm and its last activation are sites too. A `map` is a hidden
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
        """The site as one word, which `parse` reads."""
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
        """A sort key: by stack, then by depth, then by kind and head."""
        # The embedding tables have no layer, but belong at the two ends.
        depth = {"input_embedding": -2, "output_embedding": 1 << 30}.get(self.kind, -1 if self.layer is None else self.layer)
        return *stack_order(self.stack), depth, KINDS.index(self.kind) if self.kind in KINDS else len(KINDS), self.head or 0
