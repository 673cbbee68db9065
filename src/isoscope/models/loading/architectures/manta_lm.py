"""MANTa-LM (Godey et al. 2022): bytes are grouped into blocks by a learnt, differentiable segmentation; a T5 reads blocks and writes bytes.

Names and shapes are those of `almanach/manta-lm-*`. Ids are ByT5's: byte + 3, padding 0, end 1.

A row of a batch is computed as if it were alone; in the published code padding and other rows change it.
"""

# mypy: allow-subclassing-any, allow-untyped-decorators

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import LongformerConfig, LongformerModel, PreTrainedModel, T5Config
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput, Seq2SeqModelOutput
from transformers.models.t5.modeling_t5 import T5Stack
from transformers.utils.generic import merge_with_config_defaults

from isoscope.core.errors import IsoscopeError

BLOCKS_AT_ONCE = 32
"""Blocks that are pooled together: pooling needs bytes × channels numbers for each."""


class MantaConfig(T5Config):
    """Sizes of a MANTa-LM: those of T5, and of the network that makes blocks. The defaults are those of the published code."""

    model_type = "manta"
    attribute_map: ClassVar[dict[str, str]] = T5Config.attribute_map | {"max_position_embeddings": "max_length_inputs"}

    vocab_size: int = 384
    byte_embedding_dim: int = 64
    frontier_predictor_num_layers: int = 1
    frontier_predictor_num_attention_heads: int = 8
    frontier_predictor_attention_window: int = 16
    pooling_variance_regularization: float = 1e-6
    pooling_kernel_size: int = 3
    pooling_depthwise_convolution: bool = True
    pooling_mean_pool: bool = False
    max_length_inputs: int = 256
    max_length_encoder_decoder: int = 256
    use_cache: bool = False
    decoder_start_token_id: int = 0
    tie_word_embeddings: bool = False

    def __post_init__(self, **kwargs: Any) -> None:
        """Refuse choices that no published model makes and this code does not implement."""
        plain = isinstance(self.pooling_kernel_size, int) and self.pooling_kernel_size % 2 == 1
        if not plain or not self.pooling_depthwise_convolution or self.pooling_mean_pool or self.tie_word_embeddings:
            raise IsoscopeError(
                "MANTa-LM is known here as published: one depth-wise kernel of odd size, max pooling, embeddings not tied; "
                "set pooling_kernel_size, pooling_depthwise_convolution, pooling_mean_pool and tie_word_embeddings so."
            )
        super().__post_init__(**kwargs)
        self.tie_word_embeddings = False  # T5 sets it


@dataclass
class MantaEncoderOutput(BaseModelOutput):
    """The output of the encoder: states of blocks, and the mask of blocks."""

    block_mask: Tensor | None = None


class FrontierPredictor(nn.Module):
    """How likely a block begins at each byte: a Longformer with a narrow window, and a sigmoid."""

    def __init__(self, config: MantaConfig) -> None:
        super().__init__()
        d, window = config.byte_embedding_dim, config.frontier_predictor_attention_window
        self.window, self.longest = window, config.max_length_inputs
        # Bytes filled up to whole windows, and one more: Longformer counts positions from one.
        positions = (config.max_length_inputs // window + 1) * window + 1
        self.local_transformer = LongformerModel(
            LongformerConfig(
                vocab_size=1,
                hidden_size=d,
                intermediate_size=4 * d,
                num_hidden_layers=config.frontier_predictor_num_layers,
                num_attention_heads=config.frontier_predictor_num_attention_heads,
                attention_window=window,
                max_position_embeddings=positions,
                hidden_act="gelu",
                hidden_dropout_prob=config.dropout_rate,
                attention_probs_dropout_prob=config.dropout_rate,
                pad_token_id=0,
                bos_token_id=None,
                sep_token_id=None,
                eos_token_id=None,
            )
        )
        self.output_projection = nn.Linear(d, 1)
        self.probability = nn.Sigmoid()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(b, bytes, d) and their mask to (b, bytes)."""
        n = x.shape[1]
        if n > self.longest:
            raise IsoscopeError(f"This MANTa-LM takes at most {self.longest} bytes; got {n}: give shorter sequences.")
        fill = -n % self.window
        x, mask = nn.functional.pad(x, (0, 0, 0, fill)), nn.functional.pad(mask, (0, fill))
        states = self.local_transformer(inputs_embeds=x, attention_mask=mask).last_hidden_state[:, :n]
        return self.probability(self.output_projection(states)).squeeze(-1)


class ByteKernel(nn.Module):
    """A depth-wise kernel over bytes, whose taps are weighted by how much each byte belongs to a block."""

    def __init__(self, d: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1, 1, size, d))

    def forward(self, x: Tensor, share: Tensor, mask: Tensor) -> Tensor:
        """(b, bytes, d), the share of each byte in each block (b, blocks, bytes), the mask (b, bytes), to (b, blocks, d).

        For each block, the largest answer over bytes s of Σₖ w[k]·x[s + k − half]·share[s + k − half]; outside the text both are zero.
        """
        size = self.weight.shape[2]
        half = size // 2
        taps = nn.functional.pad(x, (0, 0, half, half)).unfold(1, size, 1) * self.weight[0, 0].T  # (b, bytes, d, size)
        shares = nn.functional.pad(share, (half, half)).unfold(2, size, 1)  # (b, blocks, bytes, size)
        outside = ~mask[:, None, :, None].bool()
        answers = [
            torch.einsum("bsdk,bjsk->bjsd", taps, part).masked_fill(outside, -torch.inf).amax(dim=2)
            for part in shares.split(BLOCKS_AT_ONCE, dim=1)
        ]
        return torch.cat(answers, dim=1)


class BlockPooling(nn.Module):
    """From bytes and frontiers to blocks.

    The number of the block that a byte is in is a sum of independent draws, one for each frontier up to it, with mean m = Σp and
    standard deviation s = √Σp(1 − p). The byte's shares in the blocks j are softmaxⱼ(−(m − j)²/2s): s, not s², as published.
    """

    def __init__(self, config: MantaConfig) -> None:
        super().__init__()
        d = config.byte_embedding_dim
        self.floor, self.longest = config.pooling_variance_regularization, config.max_length_encoder_decoder
        self.out_projection = nn.Linear(d, config.d_model)
        self.conv_layers = nn.Sequential(ByteKernel(d, config.pooling_kernel_size))

    def shares(self, frontiers: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """(b, bytes) probabilities and mask, to each byte's share in each block (b, blocks, bytes) and the number of blocks (b,)."""
        p = frontiers * mask
        p = torch.cat([torch.zeros_like(p[:, :1]), p[:, 1:]], dim=1)
        mean = p.cumsum(-1)
        spread = ((p * (1 - p)).cumsum(-1) + max(self.floor, 5 * torch.finfo(p.dtype).resolution)).sqrt()
        # Padding adds no frontier, so mean and spread stay what they are at the last byte.
        blocks = torch.minimum(mask.sum(-1), (mean + 3 * spread).amax(-1).long() + 1)
        j = torch.arange(int(blocks.max()), device=p.device)
        score = -((mean[:, None] - j[:, None]) ** 2) / (2 * spread[:, None])
        score = score.masked_fill((j >= blocks[:, None])[:, :, None], -torch.inf)
        return score.softmax(dim=1) * mask[:, None], blocks

    def forward(self, frontiers: Tensor, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """(b, bytes) probabilities, (b, bytes, d) vectors and the mask, to (b, blocks, d_model) vectors and the mask of blocks."""
        share, blocks = self.shares(frontiers, mask)
        share = share[:, : self.longest]
        block_mask = torch.arange(share.shape[1], device=x.device) < blocks[:, None]
        return self.out_projection(self.conv_layers[0](x, share, mask)), block_mask.to(mask.dtype)


def _stack_config(config: MantaConfig, layers: int, *, is_decoder: bool) -> MantaConfig:
    """The configuration of one of the T5 stacks."""
    own = copy.deepcopy(config)
    own.num_layers, own.is_decoder, own.is_encoder_decoder = layers, is_decoder, False
    return own


class MantaPreTrainedModel(PreTrainedModel):
    """How weights are drawn and loaded. The stacks draw theirs as T5 and Longformer do, the rest as torch does."""

    config: MantaConfig
    config_class = MantaConfig
    base_model_prefix = "transformer"
    _supports_sdpa = True
    _keys_to_ignore_on_load_unexpected: ClassVar[list[str]] = [r"position_ids$"]

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight)
        elif isinstance(module, nn.Linear):
            bound = module.in_features**-0.5
            for parameter in (module.weight, module.bias):
                if parameter is not None:
                    init.uniform_(parameter, -bound, bound)
        elif isinstance(module, ByteKernel):
            bound = math.prod(module.weight.shape[:3]) ** -0.5
            init.uniform_(module.weight, -bound, bound)


class MantaEncoderModel(MantaPreTrainedModel):
    """Bytes to blocks, and the T5 encoder over blocks."""

    def __init__(self, config: MantaConfig) -> None:
        super().__init__(config)
        self.byte_embeddings = nn.Embedding(config.vocab_size, config.byte_embedding_dim)
        self.frontier_predictor = FrontierPredictor(config)
        self.pooler = BlockPooling(config)
        self.t5_encoder = T5Stack(_stack_config(config, config.num_layers, is_decoder=False))
        self.t5_encoder.embed_tokens = None  # it is fed blocks; the checkpoints have no such table
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The table of bytes."""
        return self.byte_embeddings

    def segment(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """(b, bytes) ids and mask, to blocks (b, blocks, d_model), the mask of blocks (b, blocks) and the frontiers (b, bytes)."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask.to(input_ids.dtype)
        if (mask[:, 1:] > mask[:, :-1]).any() or not mask[:, 0].all():
            raise IsoscopeError("MANTa-LM takes rows of at least one byte, padded on the right; pad them so.")
        x = self.byte_embeddings(input_ids)
        frontiers = self.frontier_predictor(x, mask)
        return *self.pooler(frontiers, x, mask), frontiers

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any) -> MantaEncoderOutput:
        """(b, bytes) ids and mask to a state for each block."""
        blocks, block_mask, _ = self.segment(input_ids, attention_mask)
        encoded = self.t5_encoder(inputs_embeds=blocks, attention_mask=block_mask, **kwargs)
        return MantaEncoderOutput(encoded.last_hidden_state, encoded.hidden_states, encoded.attentions, block_mask)


class MantaModel(MantaPreTrainedModel):
    """Both stacks without the output table."""

    _tied_weights_keys: ClassVar[dict[str, str]] = {"decoder.embed_tokens.weight": "decoder_embeddings.weight"}

    def __init__(self, config: MantaConfig) -> None:
        super().__init__(config)
        self.encoder = MantaEncoderModel(config)
        self.decoder_embeddings = nn.Embedding(config.vocab_size, config.d_model)
        self.decoder = T5Stack(_stack_config(config, config.num_decoder_layers, is_decoder=True))
        self.decoder.set_input_embeddings(self.decoder_embeddings)
        self.post_init()

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """The decoder's table has two names, whether or not the configuration ties input and output tables."""
        return dict(self._tied_weights_keys)

    def get_input_embeddings(self) -> nn.Module:
        """The table of bytes that the encoder reads."""
        return self.encoder.byte_embeddings

    @merge_with_config_defaults
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> Seq2SeqModelOutput:
        """(b, bytes) ids for the encoder and for the decoder, with their masks, to a state for each byte of the decoder."""
        kwargs = {key: kwargs[key] for key in ("output_hidden_states", "output_attentions") if key in kwargs}
        encoded = self.encoder(input_ids, attention_mask, **kwargs)
        decoded = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoded.last_hidden_state,
            encoder_attention_mask=encoded.block_mask,
            use_cache=False,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoded.last_hidden_state,
            decoder_hidden_states=decoded.hidden_states,
            decoder_attentions=decoded.attentions,
            cross_attentions=decoded.cross_attentions,
            encoder_last_hidden_state=encoded.last_hidden_state,
            encoder_hidden_states=encoded.hidden_states,
            encoder_attentions=encoded.attentions,
        )


class MantaForConditionalGeneration(MantaModel):
    """Both stacks and the output table."""

    def __init__(self, config: MantaConfig) -> None:
        super().__init__(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        """The table that the next byte is looked up in."""
        return self.lm_head

    def forward(self, *args: Any, **kwargs: Any) -> Seq2SeqLMOutput:
        """As MantaModel, with a score for each next byte."""
        outputs = super().forward(*args, **kwargs)
        rest = {key: value for key, value in outputs.items() if key != "last_hidden_state"}
        return Seq2SeqLMOutput(logits=self.lm_head(outputs.last_hidden_state), **rest)
