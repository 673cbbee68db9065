"""Where vectors are measured: a site is a place in a model, and a slice a class of token positions.

A slice is a name: `special`, `first` or `body`. On request body is split into parts: `body:sink`, `body:frequency-2`, `body:position-3`
or a combination (`body:sink+position-3`). Every part still counts as `body`. Each position belongs to one slice, so statistics are stored
once per slice, and a token policy, which chooses slices after the pass, is answered by merging them.
"""

from __future__ import annotations

from dataclasses import dataclass

from isoscope.core.errors import IsoscopeError, nearest

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
    "pooled",
    "output_embedding",
)
"""Every kind of site, in the order of the table."""

STACKS = ("characters", "encoder", "backbone", "decoder")
"""Stacks in the order in which an input passes through them. Other names come last."""
SINGLE_KINDS = ("map", "pooled")
"""Sites with one vector per image or item: each is a point of the body, and there are no other slices."""
INNER_KINDS = ("before_norm", "after_norm", "before_activation", "after_activation")
"""Sites within a block. They keep sums and norms; second moments only on request."""

SPECIAL, FIRST, BODY = "special", "first", "body"
POINTS = "points"
"""The one slice of a matrix: all of its rows."""

POLICIES: dict[str, tuple[str, ...]] = {
    "all": (SPECIAL, FIRST, BODY),
    "no-special": (FIRST, BODY),
    "body": (BODY,),
}
"""The token policies that every run can answer, with their slices."""


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
    state flattened to one vector per image. `pooled` is one vector per item, made of the state of the same layer.

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


def base_slice(name: str) -> str:
    """The slice without its marks: `body` for every part of body.

    >>> base_slice("body:sink+position-3")
    'body'
    """
    return name.partition(":")[0]


def slice_marks(name: str) -> list[str]:
    """The marks of a part of body.

    >>> slice_marks("body:sink+position-3")
    ['sink', 'position-3']
    """
    return name.partition(":")[2].split("+") if ":" in name else []


def policies_for(slices: list[str]) -> list[str]:
    """Every policy that these slices can answer: the three standard ones, and one per mark of body.

    >>> policies_for(["first", "body", "body:sink"])
    ['all', 'no-special', 'body', 'body-no-sink', 'sink']
    """
    if slices == [POINTS]:
        return ["all"]
    marks = sorted({mark for name in slices for mark in slice_marks(name)})
    return [*POLICIES, *(["body-no-sink"] if "sink" in marks else []), *marks]


def slices_of_policy(policy: str, slices: list[str]) -> list[str]:
    """The slices that `policy` chooses.

    >>> slices_of_policy("no-special", ["special", "first", "body"])
    ['first', 'body']
    """
    if slices == [POINTS] and policy == "all":
        return slices
    if policy in POLICIES:
        return [name for name in slices if base_slice(name) in POLICIES[policy]]
    known = policies_for(slices)
    if policy not in known:
        raise IsoscopeError(f"The policy {policy!r} is not one of {', '.join(known)}{nearest(policy, known)}")
    if policy == "body-no-sink":
        return [name for name in slices if base_slice(name) == BODY and "sink" not in slice_marks(name)]
    return [name for name in slices if policy in slice_marks(name)]
