"""One small Transformer for text, images and speech. Every choice that the geometry may depend on is a parameter."""

# mypy: allow-subclassing-any

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import MaskedLMOutput


class SmallConfig(PreTrainedConfig):
    """Sizes and choices, under the names that transformers uses, if it has one."""

    model_type = "isoscope"

    modality: str = "text"
    causal: bool = False
    norm: str = "pre"
    rotary: bool = True
    hidden_size: int = 96
    num_hidden_layers: int = 6
    num_attention_heads: int = 3
    intermediate_size: int = 192
    max_position_embeddings: int = 128
    vocab_size: int = 0
    outputs: int = 0
    patch: int = 4
    image_size: int = 32
    bands: int = 40
    band_mean: list[float] | tuple[float, ...] = ()
    band_sd: list[float] | tuple[float, ...] = ()
    pad_token_id: int | None = None
    initializer_range: float = 0.02

    @property
    def features(self) -> int:
        """Numbers per position, for images and speech."""
        return 3 * self.patch**2 if self.modality == "images" else self.bands


@lru_cache(maxsize=8)
def rotary(length: int, d: int) -> Tensor:
    """(2, length, d/2) cosines and sines of the angles by which positions rotate the pairs of a head's d dimensions (Su et al. 2021)."""
    with torch.inference_mode(False):  # it is cached, and the next caller may need gradients
        angles = torch.arange(length)[:, None] * 1000.0 ** -torch.linspace(0, 1, d // 2 + 1)[:-1]
        return torch.stack([angles.cos(), angles.sin()])


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """(…, t, d) with its pairs of dimensions rotated."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class Attention(nn.Module):
    """Self-attention over the open positions: the earlier ones, or all without padding."""

    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        d, self.config = config.hidden_size, config
        self.query, self.key, self.value, self.output = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x: Tensor, open_: Tensor | None) -> Tensor:
        """(b, t, d) to (b, t, d); `open_` (b, 1, t, t) if there is padding."""
        q, k, v = (
            part(x).unflatten(-1, (self.config.num_attention_heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        if self.config.rotary:
            angles = rotary(x.shape[1], q.shape[-1]).to(x)
            q, k = rotate(q, *angles), rotate(k, *angles)
        # `open_` already holds the causal mask if there is padding, and sdpa refuses both at once.
        causal = self.config.causal and open_ is None
        if self.config._attn_implementation == "eager":
            open_ = torch.ones_like(q[0, 0] @ k[0, 0].mT, dtype=torch.bool).tril() if causal else open_
            scores = q @ k.mT * q.shape[-1] ** -0.5
            seen = functional.softmax(scores if open_ is None else scores.masked_fill(~open_, -torch.inf), dim=-1) @ v
        else:
            seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=open_, is_causal=causal)
        return self.output(seen.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and an MLP, each with a residual connection and a norm: before it (pre), or after the sum (post)."""

    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        d = config.hidden_size
        self.before = config.norm == "pre"
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.attention = Attention(config)
        self.mlp = nn.Sequential(nn.Linear(d, config.intermediate_size), nn.GELU(), nn.Linear(config.intermediate_size, d))

    def forward(self, x: Tensor, open_: Tensor | None = None) -> Tensor:
        """(b, t, d) to (b, t, d)."""
        first, second = self.norms
        if self.before:
            x = x + self.attention(first(x), open_)
            return x + self.mlp(second(x))
        x = first(x + self.attention(x, open_))
        return second(x + self.mlp(x))


class SmallTransformer(PreTrainedModel):
    """Embedding, blocks, output head. Text comes as ids, images as pixels that are cut into patches, speech as mel frames."""

    config_class = SmallConfig
    base_model_prefix = "network"
    _supports_sdpa = True

    def __init__(self, config: SmallConfig) -> None:
        super().__init__(config)
        d = config.hidden_size
        text = config.modality == "text"
        self.embedding = nn.Embedding(config.vocab_size, d) if text else nn.Linear(config.features, d)
        self.places = None if config.rotary else nn.Embedding(config.max_position_embeddings, d)
        self.hidden = None if text else nn.Parameter(torch.zeros(d))
        self.first = nn.LayerNorm(d) if config.norm == "post" else nn.Identity()
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.last = nn.LayerNorm(d) if config.norm == "pre" else nn.Identity()
        self.head = nn.Linear(d, config.outputs)
        self.post_init()

    def _init_weights(self, module: Any) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            init.normal_(module.weight, std=self.config.initializer_range)
            if isinstance(module, nn.Linear):
                init.zeros_(module.bias)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, SmallTransformer) and module.hidden is not None:
            init.normal_(module.hidden, std=self.config.initializer_range)

    def get_input_embeddings(self) -> Any:
        """The embedding table of text, else None."""
        return self.embedding if isinstance(self.embedding, nn.Embedding) else None

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        pixel_values: Tensor | None = None,
        input_features: Tensor | None = None,
        masked: Tensor | None = None,
        output_hidden_states: bool = False,
        **_: Any,
    ) -> MaskedLMOutput:
        """The output for ids (b, t), pixels (b, 3, h, w) or frames (b, t, bands); positions that are `masked` (b, t) are hidden."""
        if pixel_values is not None:
            input_features = functional.unfold(pixel_values, self.config.patch, stride=self.config.patch).transpose(1, 2)
        x = self.embedding(input_ids if input_ids is not None else input_features)
        if masked is not None and self.hidden is not None:
            x = torch.where(masked[..., None], self.hidden, x)
        x = self.first(x if self.places is None else x + self.places.weight[: x.shape[1]])
        open_ = self._open(attention_mask, x.shape[1])
        states = [x]
        for block in self.blocks:
            x = block(x, open_)
            states = [*states, x] if output_hidden_states else states
        # As in transformers, the last of the hidden states is the one after the final norm.
        states[-1] = x = self.last(x)
        return MaskedLMOutput(logits=self.head(x), hidden_states=tuple(states) if output_hidden_states else None)

    def _open(self, mask: Tensor | None, t: int) -> Tensor | None:
        """(b, 1, t, t) which positions are open to which; None if there is no padding."""
        if mask is None or bool(mask.all()):
            return None
        square = torch.ones(t, t, dtype=torch.bool, device=mask.device)
        return mask.bool()[:, None, None, :] & (square.tril() if self.config.causal else square)
