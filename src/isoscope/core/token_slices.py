"""Slices, the classes of token positions, and the token policies, which choose slices after the pass.

A slice is a name: `special`, `first` or `body`. On request body is split into parts: `body:sink`, `body:frequency-2`, `body:position-3`
or a combination (`body:sink+position-3`). Every part still counts as `body`. Each position belongs to one slice, so statistics are kept
once per slice, and a policy is answered by merging them.
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
"""The token policies that every run can answer, with their slices."""


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
