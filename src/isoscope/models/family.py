"""What a family of models is: where its stacks are and how it is fed. One family, one file in `families/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from isoscope.core.errors import IsoscopeError
from isoscope.core.registry import Registry
from isoscope.core.source import source_modality
from isoscope.models.piece import Reader

if TYPE_CHECKING:
    from isoscope.models.load import LoadedModel

RANDOM = "random"
"""Verified at a small random configuration only."""


@dataclass(frozen=True)
class Stack:
    """A module that holds blocks; where they are is found from its structure, or named (`stages.*.layers.*`)."""

    module: nn.Module
    blocks: str | None = None


@dataclass(frozen=True)
class Family:
    """How models of one kind are told apart, prepared, fed and tapped."""

    name: str
    modality: str
    """`text`, `characters`, `speech` or `images`."""
    about: str
    """What it covers, in one line."""
    covers: Mapping[str, str]
    """The architectures that are tested, by name, with what each was verified on: the real weights, or `RANDOM`."""
    matches: Callable[[Any], int]
    """How surely a configuration belongs to the family: 0 not at all, 1 by what it can do, 2 by its type, 3 by more than its type."""
    stacks: Callable[[nn.Module], dict[str, Stack]]
    """The stacks of a model, by name."""
    processor: Callable[[Any, Any, dict[str, Any]], Any]
    """`processor(folder, config, source)`: the tokenizer, or what prepares clips or images."""
    reader: Callable[[LoadedModel, int | None], Reader]
    """`reader(model, seq_len)`: how its inputs are made."""
    without_attention: tuple[str, ...] = ()
    """Of the architectures that are covered, those that have no attention; of the others it is verified."""
    inner: bool = False
    """Whether states around the last norm and the last activation of a block are sites too."""
    loads: tuple[str, ...] = ("folder", "hub")
    """The forms in which weights come; a folder's are safetensors or .bin, in one file or many."""

    @property
    def source(self) -> str:
        """The modality of the sources it reads."""
        return source_modality(self.modality)


families: Registry[Family] = Registry(Family, "family", "isoscope.models.families")


def family_of(config: Any) -> Family:
    """The family of a configuration: the one that claims it most surely."""
    best = max(families, key=lambda family: family.matches(config))
    if not best.matches(config):
        raise IsoscopeError(
            f"No family claims models of type {config.model_type!r}; `isoscope list families` shows what there is, and "
            "isoscope.measure(module, batches) takes any module."
        )
    return best
