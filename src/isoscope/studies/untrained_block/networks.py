"""Untrained networks: stacks of plain blocks with every choice open."""

# mypy: allow-subclassing-any
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.core.user_input import check_count, check_word
from isoscope.models.tapping.attention_call import AttentionCall

INITS = ("bert", "words-positions-types", "torch")
NORMS = {"post": "post-LN", "pre": "pre-LN", "rms": "pre-RMSNorm"}
VARIANTS = ("full", "attention-only", "mlp-only", "uniform-attention", "no-residual", "no-norm")
"""Parts that are left out of a block; two may be joined by a plus (attention-only+no-residual)."""
EXCLUSIVE = ({"attention-only", "mlp-only"}, {"uniform-attention", "mlp-only"})
"""Variants that cannot be joined."""
STACK = "block"

SeeHidden = Callable[[int, Tensor], None]
SeeAttention = Callable[[AttentionCall], None]


@dataclass(frozen=True)
class Sizes:
    """The sizes of a network and its input. The defaults are BERT-base and 16 sequences of 512."""

    d: int = 768
    heads: int = 12
    inner: int | None = None
    length: int = 512
    batch: int = 16
    vocabulary: int = 30_522
    sigma: float = 0.02

    def __post_init__(self) -> None:
        for name in ("d", "heads", "inner", "length", "batch", "vocabulary"):
            check_count(name, getattr(self, name))
        if self.d % self.heads:
            raise IsoscopeError(f"--d must be a multiple of --heads; got {self.d} and {self.heads}.")
        if self.length < 2:
            raise IsoscopeError("--length must be at least 2: a row of attention over one position is always 1.")
        if not (self.sigma > 0 and math.isfinite(self.sigma)):
            raise IsoscopeError(f"--sigma must be above 0; got {self.sigma:g}.")


class Subject(Protocol):
    """A network on which the experiment is run."""

    def draw(self, seed: int) -> None:
        """Draw new weights and new inputs."""

    @property
    def width(self) -> int:
        """The dimension of the states that enter the first block."""

    def inputs(self) -> Iterator[Tensor]:
        """The inputs of this draw, a few sequences at a time."""

    def run(self, inputs: Tensor, bias: Tensor, depth: int, see_hidden: SeeHidden, see_attention: SeeAttention) -> None:
        """Run `depth` blocks with the bias added to the input of the first; `see_hidden(0, x)` gets this input, `(L, x)` each output."""


class Block(nn.Module):
    """Self-attention and an MLP with GELU, each with a residual path and a norm; every part can be left out.

    post-LN: norm(x + part(x)), as BERT. pre-LN and pre-RMSNorm: x + part(norm(x)).
    """

    def __init__(self, d: int, heads: int, inner: int, *, norm: str = "post", variant: frozenset[str] = frozenset(), eps: float = 1e-12):
        super().__init__()
        self.heads, self.norm, self.variant = heads, norm, variant
        if "mlp-only" not in variant:
            if "uniform-attention" not in variant:
                self.query, self.key = nn.Linear(d, d), nn.Linear(d, d)
            self.value, self.out = nn.Linear(d, d), nn.Linear(d, d)
            self.around_attention = self._make_norm(d, eps)
        if "attention-only" not in variant:
            self.up, self.down = nn.Linear(d, inner), nn.Linear(inner, d)
            self.around_mlp = self._make_norm(d, eps)

    def _make_norm(self, d: int, eps: float) -> nn.Module:
        if "no-norm" in self.variant:
            return nn.Identity()
        return nn.RMSNorm(d, eps=eps, elementwise_affine=False) if self.norm == "rms" else nn.LayerNorm(d, eps=eps)

    def forward(self, x: Tensor, see_attention: Callable[[Tensor, Tensor], None] | None = None) -> Tensor:
        """x (b, t, d); `see_attention` gets queries and keys (b, h, t, e)."""
        if "mlp-only" not in self.variant:
            x = self._with_residual(x, lambda y: self._attend(y, see_attention), self.around_attention)
        if "attention-only" not in self.variant:
            x = self._with_residual(x, lambda y: self.down(functional.gelu(self.up(y))), self.around_mlp)
        return x

    def _with_residual(self, x: Tensor, part: Callable[[Tensor], Tensor], norm: nn.Module) -> Tensor:
        y = part(x if self.norm == "post" else norm(x))
        if "no-residual" not in self.variant:
            y = y + x
        return norm(y) if self.norm == "post" else y

    def _attend(self, x: Tensor, see_attention: Callable[[Tensor, Tensor], None] | None) -> Tensor:
        if "uniform-attention" in self.variant:
            return self.out(self.value(x).mean(1, keepdim=True)).expand_as(x)
        query, key, value = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value))
        if see_attention is not None:
            see_attention(query, key)
        return self.out(functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


def parse_variant(text: str) -> frozenset[str]:
    """The parts that a variant leaves out; `full` leaves out nothing.

    >>> sorted(parse_variant("attention-only+no-residual")), parse_variant("full")
    (['attention-only', 'no-residual'], frozenset())
    """
    words = text.split("+")
    for word in words:
        check_word("--variant takes", word, VARIANTS)
    for pair in EXCLUSIVE:
        if pair <= set(words):
            raise IsoscopeError(f"{' and '.join(sorted(pair))} cannot be joined: nothing would be left; choose one.")
    return frozenset(words) - {"full"}


class PlainNetwork:
    """An embedding table and a stack of `Block`s.

    `bert`: words only; the table and all weights N(0, σ²), biases 0, ε = 1e-12.
    `words-positions-types`: word, position and type vectors, each N(0, σ²), added and normalised as BERT does; the bias comes after.
    `torch`: words only, N(0, σ²); linear layers as torch makes them, weights and biases uniform within ±1/√(fan in), ε = 1e-5.
    """

    AT_ONCE = 2048
    """Positions that run together: few enough for most of their memory to stay in the cache."""

    def __init__(self, sizes: Sizes, init: str, norm: str, variant: str, depth: int) -> None:
        self.sizes, self.init, self.norm, self.variant, self.depth = sizes, init, norm, parse_variant(variant), depth
        self.eps = 1e-5 if init == "torch" else 1e-12
        self.blocks = nn.ModuleList()
        self.points = torch.empty(0)

    @property
    def width(self) -> int:
        """The dimension d."""
        return self.sizes.d

    def draw(self, seed: int) -> None:
        """Draw blocks and embeddings with this seed; embeddings and words are the same for every kind of network."""
        s = self.sizes
        generator = torch.Generator().manual_seed(seed)
        # Before anything that depends on the kind of network, so that all kinds read the same input.
        table = torch.randn(s.vocabulary, s.d, generator=generator).mul_(s.sigma)
        words = torch.randint(s.vocabulary, (s.batch, s.length), generator=generator)
        x = table[words]
        if self.init == "words-positions-types":
            x += torch.randn(s.length, s.d, generator=generator).mul_(s.sigma) + torch.randn(s.d, generator=generator).mul_(s.sigma)
            x = functional.layer_norm(x, (s.d,), eps=self.eps)
        self.points = x
        # torch draws the weights of linear layers from its global generator, which is put back afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            options: dict[str, Any] = {"norm": self.norm, "variant": self.variant, "eps": self.eps}
            self.blocks = nn.ModuleList(Block(s.d, s.heads, s.inner or 4 * s.d, **options) for _ in range(self.depth)).eval()
        if self.init != "torch":
            for parameter in self.blocks.parameters():
                if parameter.ndim == 2:
                    nn.init.normal_(parameter, 0.0, s.sigma, generator=generator)
            for module in self.blocks.modules():
                if isinstance(module, nn.Linear):
                    nn.init.zeros_(module.bias)

    def inputs(self) -> Iterator[Tensor]:
        """Embeddings (b, t, d)."""
        yield from self.points.split(max(1, self.AT_ONCE // self.sizes.length))

    def run(self, inputs: Tensor, bias: Tensor, depth: int, see_hidden: SeeHidden, see_attention: SeeAttention) -> None:
        """As `Subject.run`."""
        x = inputs + bias
        see_hidden(0, x)
        for layer, block in enumerate(self.blocks[:depth], 1):
            x = block(x, lambda query, key, at=layer: see_attention(_plain_call(at, query, key)))
            see_hidden(layer, x)


def _plain_call(layer: int, query: Tensor, key: Tensor) -> AttentionCall:
    """A call of attention over all positions, without mask or bias."""
    scale = query.shape[-1] ** -0.5
    return AttentionCall(Site(STACK, "attention", layer), query, key, scale, None, None, None, query, key)
