"""A family of models: where its stacks are and how it is fed. Each family is one file in `families/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from isoscope.core.errors import IsoscopeError
from isoscope.core.registry import Registry
from isoscope.core.source import source_modality
from isoscope.models.loading.chunk import Reader
from isoscope.models.loading.weights import WeightFit, output_embedding
from isoscope.models.naming.model_name import ModelReference

RANDOM = "random"
"""Verified at a small random configuration only."""
FEW_SYMBOLS = 1024
"""A vocabulary smaller than this consists of characters, bytes, residues or atoms."""


@dataclass(frozen=True)
class Stack:
    """A module that holds blocks. `blocks` is their path (`stages.*.layers.*`); None finds them from the module's structure."""

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
    """The tested architectures by name, with what each was verified on: the real weights, or `RANDOM`."""
    matches: Callable[[Any], int]
    """How surely a configuration belongs to the family: 0 not at all, 1 by its abilities, 2 by its type, 3 by more than its type."""
    stacks: Callable[[nn.Module], dict[str, Stack]]
    """The stacks of a model, by name."""
    processor: Callable[[Any, Any, dict[str, Any]], Any]
    """`processor(folder, config, source)` loads the tokenizer, or the object that prepares clips or images."""
    reader: Callable[[LoadedModel, int | None], Reader]
    """`reader(model, seq_len)` makes the reader that cuts items into inputs."""
    without_attention: tuple[str, ...] = ()
    """The covered architectures that have no attention; the attention of all others is tested."""
    inner: bool = False
    """Whether the states around the last norm and the last activation of a block are sites too."""
    loads: tuple[str, ...] = ("folder", "hub")
    """The forms in which weights come; those of a folder are safetensors or .bin, in one file or many."""

    @property
    def source(self) -> str:
        """The modality of the sources it reads."""
        return source_modality(self.modality)


@dataclass
class LoadedModel:
    """A model ready to be measured."""

    reference: ModelReference
    with_head: nn.Module  # the whole model
    base: nn.Module  # the part that is run, without a head
    processor: Any  # a tokenizer, or the object that prepares clips or images
    family: Family
    device: torch.device
    fit: WeightFit
    borrowed: bool = False
    """Whether it is an object of the user, who may train it afterwards."""
    pooling: Any = None
    """The pooling that such an object declares."""

    @property
    def output_embedding(self) -> nn.Module | None:
        """The module that makes logits; None if there is none, or none with weights from the checkpoint."""
        return output_embedding(self.with_head, self.fit.random_names)

    @property
    def config(self) -> Any:
        """The model's configuration."""
        return self.base.config

    @property
    def modality(self) -> str:
        """The family's modality, except that a text model with a small vocabulary reads characters."""
        few = self.family.modality == "text" and len(self.processor) < FEW_SYMBOLS
        return "characters" if few else self.family.modality


families: Registry[Family] = Registry(Family, "family", "isoscope.models.loading.families")


def model_types(*types: str, **fields: str) -> Callable[[Any], int]:
    """A `matches` for a family that is told apart by `model_type` in config.json, and perhaps by the values of other fields.

    >>> from types import SimpleNamespace
    >>> model_types("vit", "deit")(SimpleNamespace(model_type="deit")), model_types("vit")(SimpleNamespace(model_type="bert"))
    (2, 0)
    >>> model_types("t5", tokenizer_class="ByT5Tokenizer")(SimpleNamespace(model_type="t5", tokenizer_class="ByT5Tokenizer"))
    3
    """

    def match(config: Any) -> int:
        belongs = config.model_type in types and all(getattr(config, name, None) == value for name, value in fields.items())
        return (3 if fields else 2) * belongs

    return match


def family_of(config: Any) -> Family:
    """The family of a configuration: the one that matches it most surely."""
    best = max(families, key=lambda family: family.matches(config))
    if not best.matches(config):
        raise IsoscopeError(
            f"isoscope does not know how to feed models of type {config.model_type!r}. Measure it as a module, "
            "isoscope.measure(module, batches) (docs: any module), or add a family (docs: add a family)."
        )
    return best
