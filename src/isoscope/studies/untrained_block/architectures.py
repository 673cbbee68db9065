"""Untrained networks: any architecture that transformers can build from a configuration, at its own initialisation."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from isoscope.core.errors import IsoscopeError, IsoscopeWarning, nearest
from isoscope.core.site import Site, stack_order
from isoscope.models.loading.architectures import register_architectures
from isoscope.models.loading.family import Stack, family_of
from isoscope.models.model_errors import first_line
from isoscope.models.tapping.attention_call import AttentionCall
from isoscope.models.tapping.attention_tap import AttentionTap
from isoscope.models.tapping.blocks import points_of
from isoscope.models.tapping.tap import Tap
from isoscope.runs.stored_cell import key_of
from isoscope.studies.untrained_block.networks import SeeAttention, SeeHidden, Sizes, Subject

AT_ONCE = 4
"""Sequences, clips or images that run together."""
RATE = 320
"""Samples of sound for one position."""


class _LastBlockReachedError(Exception):
    """The last block that is measured has run."""


class _TooLongError(IsoscopeError):
    """A sequence has more positions than the architecture takes."""


@dataclass(frozen=True)
class Architecture:
    """An architecture by its type, or by a folder with config.json, whose weights are not read."""

    spec: str
    depths: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        if not self.depths or min(self.depths) < 1:
            raise IsoscopeError(f"--depth counts blocks, from 1 on; got {min(self.depths, default=0)}.")
        blocks = getattr(self.config, "num_hidden_layers", None)
        if isinstance(blocks, int) and blocks < max(self.depths):
            raise IsoscopeError(f"{self.spec} has {blocks} blocks; --depth {max(self.depths)} is more than that.")

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"block {Path(self.spec).resolve().name if Path(self.spec).is_dir() else self.spec}"

    @property
    def config(self) -> Any:
        """Its configuration."""
        from transformers import CONFIG_MAPPING, AutoConfig

        register_architectures()
        if Path(self.spec).is_dir():
            if not (Path(self.spec) / "config.json").is_file():
                raise IsoscopeError(f"{self.spec} has no config.json; --arch takes a folder with one, or the name of a type such as gpt2.")
            try:
                return AutoConfig.from_pretrained(self.spec, local_files_only=True)
            except Exception as error:  # transformers raises types that have nothing in common
                raise IsoscopeError(f"{self.spec}/config.json cannot be read: {first_line(error)}.") from error
        known = list(CONFIG_MAPPING.keys())
        if self.spec not in known:
            raise IsoscopeError(
                f"--arch takes a folder with config.json or a type that transformers knows, such as bert or gpt2; got {self.spec!r}"
                f"{nearest(self.spec, known) or '.'}"
            )
        return CONFIG_MAPPING[self.spec]()

    def identity(self) -> dict[str, Any]:
        """Everything that determines it."""
        config = {key: value for key, value in self.config.to_dict().items() if not key.startswith(("_", "transformers_version"))}
        return {"architecture": self.config.model_type, "config": key_of(config), "depths": list(self.depths)}

    def make_subject(self, sizes: Sizes) -> Subject:
        """Make the network, without weights yet."""
        return _TransformersNetwork(self, sizes)


class _TransformersNetwork:
    """A model of an architecture. The bias is added to the input of its first block, after its own embeddings."""

    def __init__(self, architecture: Architecture, sizes: Sizes) -> None:
        self.architecture, self.sizes = architecture, sizes
        self.width = 0
        self._follows_attention = True  # False if the tap cannot follow this architecture
        self._model: nn.Module = nn.Identity()
        self._inputs = torch.empty(0)

    def draw(self, seed: int) -> None:
        """Draw weights and inputs with this seed."""
        from transformers import AutoModel

        config = self.architecture.config
        if isinstance(getattr(config, "num_hidden_layers", None), int):
            config.num_hidden_layers = max(self.architecture.depths)  # later blocks would be drawn and never run
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model = AutoModel.from_config(config).eval()
        except Exception as error:  # a configuration may be refused in as many ways as there are architectures
            raise IsoscopeError(f"{self.architecture.spec} cannot be built: {first_line(error)}.") from error
        try:
            stacks = family_of(config).stacks(model)
        except IsoscopeError:  # no family: take the largest repeated structure of the whole model
            stacks = {"encoder": Stack(model)}
        self._name = min(stacks, key=stack_order)
        self._stack = stacks[self._name]
        self._model = model.get_encoder() if getattr(config, "is_encoder_decoder", False) else model
        self._inputs = self._draw_inputs(config, torch.Generator().manual_seed(seed))
        self._learn_width()

    def _draw_inputs(self, config: Any, generator: torch.Generator) -> Tensor:
        """Words drawn uniformly, or noise for a model that reads images or sound."""
        s, kind = self.sizes, getattr(self._model, "main_input_name", "input_ids")
        if kind == "input_ids":
            longest = getattr(config, "max_position_embeddings", None) or s.length
            if s.length > longest:
                raise IsoscopeError(f"{self.architecture.spec} takes at most {longest} positions; use --length {longest} or less.")
            return torch.randint(config.get_text_config().vocab_size, (s.batch, s.length), generator=generator)
        if kind == "pixel_values":
            size = config.image_size if isinstance(getattr(config, "image_size", 224), int) else 224
            return torch.randn(s.batch, getattr(config, "num_channels", 3), size, size, generator=generator)
        if kind == "input_values":
            return torch.randn(s.batch, s.length * RATE + 80, generator=generator)
        raise IsoscopeError(f"{self.architecture.spec} reads {kind}; --arch takes models of text, images and raw sound.")

    def _learn_width(self) -> None:
        """Run one input to learn the width of the first block's input, and whether attention can be followed."""

        def note_width(layer: int, x: Tensor) -> None:
            if layer == 0:
                self.width = x.shape[-1]

        try:
            self.run(self._inputs[:1], torch.zeros(()), 1, note_width, lambda call: None)
        except _TooLongError:
            raise
        except IsoscopeError as error:
            self._follows_attention = False
            warnings.warn(f"{str(error).rstrip('.')}: only cosines and norms are measured.", IsoscopeWarning, stacklevel=2)
            self.run(self._inputs[:1], torch.zeros(()), 1, note_width, lambda call: None)

    def inputs(self) -> Iterator[Tensor]:
        """The inputs of this draw."""
        yield from self._inputs.split(AT_ONCE)

    def run(self, inputs: Tensor, bias: Tensor, depth: int, see_hidden: SeeHidden, see_attention: SeeAttention) -> None:
        """As `Subject.run`; the model stops after the last block that is measured."""

        def receive(site: Site, state: Tensor) -> None:
            if site.kind == "hidden":
                see_hidden(site.layer or 0, points_of(state))
                if site.layer == depth:
                    raise _LastBlockReachedError

        def receive_attention(call: AttentionCall) -> None:
            if call.site.kind == "attention":
                see_attention(call)

        # The bias hook runs before the tap's own, which was attached later: the tap sees the input with the bias.
        tap = Tap({self._name: self._stack}, receive)
        tap.begin()
        handle = tap.stacks[self._name][0][1].register_forward_pre_hook(tap.guard.wrap(_bias_hook(bias)), with_kwargs=True)
        try:
            with (
                torch.inference_mode(),
                tap.attach(),
                AttentionTap(tap.running, receive_attention) if self._follows_attention else contextlib.nullcontext(),
            ):
                self._forward(inputs)
        except _LastBlockReachedError:
            pass
        finally:
            handle.remove()

    def _forward(self, inputs: Tensor) -> None:
        try:
            self._model(inputs)
        except IndexError as error:
            message = f"{self.architecture.spec} takes fewer than {self.sizes.length} positions; choose a smaller --length."
            raise _TooLongError(message) from error


def _bias_hook(bias: Tensor) -> Callable[..., Any]:
    """A hook that adds the bias to the input of a block, at its first call only."""
    calls = iter(range(1 << 30))

    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if next(calls):  # an architecture that shares weights calls one block several times, and the bias enters once
            return None
        name = next((name for name in ("hidden_states", "hidden_state") if name in kwargs), None)
        state = args[0] if name is None else kwargs[name]
        moved = state + (bias.view(-1, 1, 1) if state.dim() == 4 and bias.dim() else bias)
        return ((moved, *args[1:]), kwargs) if name is None else (args, kwargs | {name: moved})

    return hook
