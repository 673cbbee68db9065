"""Classes of positions, and the token policies that choose among them after the pass.

A slice is a name: `special`, `first`, `body`. Where body is split on request, its parts are `body:sink`, `body:frequency-2`,
`body:position-3` or a combination of them (`body:sink+position-3`); all remain part of `body`.
"""

from __future__ import annotations

from isoscope.core.errors import IsoscopeError, nearest

SPECIAL, FIRST, BODY = "special", "first", "body"
POINTS = "points"
"""The one slice of a matrix: all of its rows."""

POLICIES: dict[str, tuple[str, ...]] = {
    "all": (SPECIAL, FIRST, BODY),
    "no-special": (FIRST, BODY),
    "body": (BODY,),
}
"""The token policies that every run answers, as sets of slices."""


def base(name: str) -> str:
    """`body` for every part of body.

    >>> base("body:sink+position-3")
    'body'
    """
    return name.partition(":")[0]


def marks(name: str) -> list[str]:
    """What a part of body is marked with.

    >>> marks("body:sink+position-3")
    ['sink', 'position-3']
    """
    return name.partition(":")[2].split("+") if ":" in name else []


def policies_of(slices: list[str]) -> list[str]:
    """Every policy that these slices can answer: the three standard ones, and one for each mark that splits body.

    >>> policies_of(["first", "body", "body:sink"])
    ['all', 'no-special', 'body', 'body-no-sink', 'sink']
    """
    if slices == [POINTS]:
        return ["all"]
    found = sorted({mark for name in slices for mark in marks(name)})
    without = ["body-no-sink"] if "sink" in found else []
    return [*POLICIES, *without, *found]


def select(policy: str, slices: list[str]) -> list[str]:
    """The slices that make up `policy`.

    >>> select("no-special", ["special", "first", "body"])
    ['first', 'body']
    """
    if slices == [POINTS] and policy == "all":
        return slices
    if policy in POLICIES:
        return [name for name in slices if base(name) in POLICIES[policy]]
    if policy not in policies_of(slices):
        known = policies_of(slices)
        raise IsoscopeError(f"The policy {policy!r} is not one of {', '.join(known)}{nearest(policy, known)}")
    if policy == "body-no-sink":
        return [name for name in slices if base(name) == BODY and "sink" not in marks(name)]
    return [name for name in slices if policy in marks(name)]
