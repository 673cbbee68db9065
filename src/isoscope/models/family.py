"""What a family of models is: where its stacks are and how it is fed. One family, one file in `families/`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from isoscope.core.errors import IsoscopeError
from isoscope.core.registry import Registry
from isoscope.models import families as package


@dataclass(frozen=True)
class Family:
    """How models of one kind are told apart, tapped and fed."""

    name: str
    modality: str
    about: str
    """What it covers, in one line."""
    matches: Callable[[Any], bool]
    """Whether a configuration belongs to the family."""
    stacks: Callable[[nn.Module], dict[str, nn.Module]]
    """The modules that hold the blocks, by the name of the stack."""
    feed: Callable[[nn.Module, Tensor, Tensor], dict[str, Any]]
    """`feed(model, ids, mask)`: the arguments of the forward pass for token ids (b, t) and their mask."""
    start: Callable[[Any], int | None]
    """The token that the second stack (a decoder that follows an encoder) is started with; None where there is none."""


def families() -> Registry[Family]:
    """Every family."""
    return Registry(package, "family", Family)


def family_of(config: Any) -> Family:
    """The family of a configuration: the first that claims it."""
    for family in families():
        if family.matches(config):
            return family
    raise IsoscopeError(f"No family claims models of type {config.model_type!r}; `isoscope list families` shows what there is.")
