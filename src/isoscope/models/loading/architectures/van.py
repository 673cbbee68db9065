"""VAN (Guo et al. 2022, "Visual Attention Network"): a convolutional network whose blocks gate a map by a large-kernel convolution of it.

Names and shapes are those of `Visual-Attention-Network/van-*`, misspellings included.
"""

# mypy: allow-subclassing-any, allow-untyped-decorators

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.modeling_outputs import BaseModelOutputWithPoolingAndNoAttention, ImageClassifierOutputWithNoAttention


class VanConfig(PreTrainedConfig):
    """Sizes of a VAN; the defaults are van-base."""

    model_type = "van"

    image_size: int = 224
    num_channels: int = 3
    patch_sizes: list[int] | tuple[int, ...] = (7, 3, 3, 3)
    strides: list[int] | tuple[int, ...] = (4, 2, 2, 2)
    hidden_sizes: list[int] | tuple[int, ...] = (64, 128, 320, 512)
    depths: list[int] | tuple[int, ...] = (3, 3, 12, 3)
    mlp_ratios: list[int] | tuple[int, ...] = (8, 8, 4, 4)
    hidden_act: str = "gelu"
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-6
    layer_scale_init_value: float = 1e-2
    drop_path_rate: float = 0.0
    dropout_rate: float = 0.0


class LargeKernelGate(nn.Module):
    """The map times its convolution with a kernel of 21 × 21, taken apart into 5 × 5, a dilated 7 × 7 and 1 × 1."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.attention = nn.Sequential(
            OrderedDict(
                depth_wise=nn.Conv2d(d, d, 5, padding=2, groups=d),
                depth_wise_dilated=nn.Conv2d(d, d, 7, padding=9, dilation=3, groups=d),
                point_wise=nn.Conv2d(d, d, 1),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        """(b, d, h, w) to the same."""
        return x * self.attention(x)


class SpatialAttention(nn.Module):
    """The gate between two 1 × 1 convolutions, around it a residual connection of its own."""

    def __init__(self, d: int, activation: str) -> None:
        super().__init__()
        self.pre_projection = nn.Sequential(OrderedDict(conv=nn.Conv2d(d, d, 1), act=ACT2FN[activation]))
        self.attention_layer = LargeKernelGate(d)
        self.post_projection = nn.Conv2d(d, d, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(b, d, h, w) to the same."""
        return x + self.post_projection(self.attention_layer(self.pre_projection(x)))


class ChannelScale(nn.Module):
    """A learnt factor for each channel, small at first."""

    def __init__(self, d: int, start: float) -> None:
        super().__init__()
        self.start = start
        self.weight = nn.Parameter(torch.full((d,), start))

    def forward(self, x: Tensor) -> Tensor:
        """(b, d, h, w) to the same."""
        return self.weight[:, None, None] * x


class VanLayer(nn.Module):
    """One block: attention, then a multilayer perceptron with a depth-wise convolution; both after a norm, and added to their input."""

    def __init__(self, config: VanConfig, d: int, ratio: int) -> None:
        super().__init__()
        wide = d * ratio
        self.pre_normomalization = nn.BatchNorm2d(d)
        self.attention = SpatialAttention(d, config.hidden_act)
        self.attention_scaling = ChannelScale(d, config.layer_scale_init_value)
        self.post_normalization = nn.BatchNorm2d(d)
        self.mlp = nn.Sequential(
            OrderedDict(
                in_dense=nn.Conv2d(d, wide, 1),
                depth_wise=nn.Conv2d(wide, wide, 3, padding=1, groups=wide),
                activation=ACT2FN[config.hidden_act],
                dropout1=nn.Dropout(config.dropout_rate),
                out_dense=nn.Conv2d(wide, d, 1),
                dropout2=nn.Dropout(config.dropout_rate),
            )
        )
        self.mlp_scaling = ChannelScale(d, config.layer_scale_init_value)

    def forward(self, x: Tensor) -> Tensor:
        """(b, d, h, w) to the same."""
        x = x + self.attention_scaling(self.attention(self.pre_normomalization(x)))
        return x + self.mlp_scaling(self.mlp(self.post_normalization(x)))


class VanStage(nn.Module):
    """Overlapping patches, blocks at one resolution, and a layer norm over the channels."""

    def __init__(self, config: VanConfig, index: int) -> None:
        super().__init__()
        d, patch = config.hidden_sizes[index], config.patch_sizes[index]
        before = config.hidden_sizes[index - 1] if index else config.num_channels
        self.embeddings = nn.Sequential(
            OrderedDict(
                convolution=nn.Conv2d(before, d, patch, stride=config.strides[index], padding=patch // 2),
                normalization=nn.BatchNorm2d(d),
            )
        )
        self.layers = nn.ModuleList([VanLayer(config, d, config.mlp_ratios[index]) for _ in range(config.depths[index])])
        self.normalization = nn.LayerNorm(d, eps=config.layer_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """(b, channels, h, w) to (b, d, h / stride, w / stride)."""
        x = self.embeddings(x)
        for layer in self.layers:
            x = layer(x)
        return self.normalization(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class VanEncoder(nn.Module):
    """The stages."""

    def __init__(self, config: VanConfig) -> None:
        super().__init__()
        self.stages = nn.ModuleList([VanStage(config, index) for index in range(len(config.depths))])

    def forward(self, x: Tensor) -> list[Tensor]:
        """The map that leaves each stage."""
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps


class VanPreTrainedModel(PreTrainedModel):
    """How weights are drawn and loaded."""

    config: VanConfig
    config_class = VanConfig
    base_model_prefix = "van"
    main_input_name = "pixel_values"
    input_modalities = ("image",)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, nn.Linear):
            init.trunc_normal_(module.weight, std=self.config.initializer_range)
        elif isinstance(module, nn.Conv2d):
            fan_out = math.prod(module.kernel_size) * module.out_channels // module.groups
            init.normal_(module.weight, std=math.sqrt(2 / fan_out))
        elif isinstance(module, ChannelScale):
            init.constant_(module.weight, module.start)


class VanModel(VanPreTrainedModel):
    """VAN without its classifier. `layernorm` is in the checkpoints and the published network never calls it; nor does this one."""

    def __init__(self, config: VanConfig) -> None:
        super().__init__(config)
        self.encoder = VanEncoder(config)
        self.layernorm = nn.LayerNorm(config.hidden_sizes[-1], eps=config.layer_norm_eps)
        self.post_init()

    def forward(self, pixel_values: Tensor, output_hidden_states: bool | None = None, **kwargs: Any) -> Any:
        """(b, 3, h, w) to the last map (b, d, h / 32, w / 32) and its mean over positions; `hidden_states` is each stage's map."""
        maps = self.encoder(pixel_values)
        last, stages = maps[-1], tuple(maps) if output_hidden_states else None
        return BaseModelOutputWithPoolingAndNoAttention(last_hidden_state=last, pooler_output=last.mean(dim=(-2, -1)), hidden_states=stages)


class VanForImageClassification(VanPreTrainedModel):
    """VAN with its linear classifier."""

    def __init__(self, config: VanConfig) -> None:
        super().__init__(config)
        self.van = VanModel(config)
        self.classifier = nn.Linear(config.hidden_sizes[-1], config.num_labels)
        self.post_init()

    def forward(self, pixel_values: Tensor, output_hidden_states: bool | None = None, **kwargs: Any) -> Any:
        """(b, 3, h, w) to a score for each class."""
        outputs = self.van(pixel_values, output_hidden_states=output_hidden_states)
        return ImageClassifierOutputWithNoAttention(logits=self.classifier(outputs.pooler_output), hidden_states=outputs.hidden_states)
