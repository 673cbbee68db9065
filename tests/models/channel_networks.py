"""Small networks whose states are maps, as torchvision writes them: channels last in Swin, channels first in ConvNeXt and ResNet."""

import torch
from torch import nn
from torch.nn import functional

C, SIDE = 8, 16
"""Channels and height of the first stage; the second has twice as many channels and half the height."""


class WindowAttention(nn.Module):
    def __init__(self, c, window=4, shift=0):
        super().__init__()
        self.qkv, self.proj, self.window, self.shift = nn.Linear(c, 3 * c), nn.Linear(c, c), window, shift

    def forward(self, x):
        b, h, w, c = x.shape
        ws = self.window
        x = torch.roll(x, (-self.shift, -self.shift), (1, 2)) if self.shift else x
        x = x.view(b, h // ws, ws, w // ws, ws, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, c)
        q, k, v = self.qkv(x).reshape(len(x), ws * ws, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
        x = ((q @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).reshape(-1, ws * ws, c)
        x = self.proj(x).view(b, h // ws, w // ws, ws, ws, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x


class SwinBlock(nn.Module):
    """With `after` the norms come after attention and perceptron, as in the second version."""

    def __init__(self, c, shift=0, *, after=False):
        super().__init__()
        self.norm1, self.attn, self.norm2, self.after = nn.LayerNorm(c), WindowAttention(c, shift=shift), nn.LayerNorm(c), after
        self.mlp = nn.Sequential(nn.Linear(c, 2 * c), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * c, c), nn.Dropout(0.1))

    def forward(self, x):
        if self.after:
            x = x + self.norm1(self.attn(x))
            return x + self.norm2(self.mlp(x))
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(4 * c), nn.Linear(4 * c, 2 * c, bias=False)

    def forward(self, x):
        x = functional.pad(x, (0, 0, 0, x.shape[-2] % 2, 0, x.shape[-3] % 2))
        corners = [x[..., i::2, j::2, :] for j in (0, 1) for i in (0, 1)]
        return self.reduction(self.norm(torch.cat(corners, -1)))


class Swin(nn.Module):
    def __init__(self, c=C, *, after=False):
        super().__init__()
        self.patch = nn.Conv2d(3, c, 2, 2)
        stages = [nn.Sequential(*(SwinBlock(width, shift, after=after) for shift in (0, 2))) for width in (c, 2 * c)]
        self.features = nn.Sequential(stages[0], PatchMerging(c), stages[1])
        self.norm, self.head = nn.LayerNorm(2 * c), nn.Linear(2 * c, 5)

    def forward(self, x):
        x = self.norm(self.features(self.patch(x).permute(0, 2, 3, 1)))
        return self.head(x.permute(0, 3, 1, 2).mean((2, 3)))


class LayerNorm2d(nn.LayerNorm):
    """A layer norm of maps with channels first: by its class it would read the last axis."""

    def forward(self, x):
        x = functional.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class Permute(nn.Module):
    def __init__(self, *order):
        super().__init__()
        self.order = order

    def forward(self, x):
        return torch.permute(x, self.order)


class ConvNeXtBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        perceptron = nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c)
        turned = Permute(0, 2, 3, 1), *perceptron, Permute(0, 3, 1, 2)
        self.block, self.scale = nn.Sequential(nn.Conv2d(c, c, 7, padding=3, groups=c), *turned), nn.Parameter(torch.ones(c, 1, 1))

    def forward(self, x):
        return x + self.scale * self.block(x)


class ConvNeXt(nn.Module):
    def __init__(self, c=C):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, c, 2, 2), LayerNorm2d(c))
        down = nn.Sequential(LayerNorm2d(c), nn.Conv2d(c, 2 * c, 2, 2))
        self.features = nn.Sequential(
            nn.Sequential(ConvNeXtBlock(c), ConvNeXtBlock(c)), down, nn.Sequential(ConvNeXtBlock(2 * c), ConvNeXtBlock(2 * c))
        )
        self.norm = LayerNorm2d(2 * c)

    def forward(self, x):
        return self.norm(self.features(self.stem(x)))


class ConvolutionBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv, self.norm, self.relu = nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.norm(self.conv(x)))
        y += x
        return y


class Convolutions(nn.Module):
    def __init__(self, c=C):
        super().__init__()
        self.stem, self.layers = nn.Conv2d(3, c, 2, 2), nn.ModuleList(ConvolutionBlock(c) for _ in range(3))
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(c, 5)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.pool(x).flatten(1))


class Scale(nn.Module):
    """A block that treats every number alike, and so tells nothing."""

    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return torch.tanh(self.by * x)


class Scales(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Scale() for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class MixerBlock(nn.Module):
    """Linear layers along two axes of one map: either could hold the channels."""

    def __init__(self, side):
        super().__init__()
        self.rows, self.columns = nn.Linear(side, side), nn.Linear(side, side)

    def forward(self, x):
        x = x + self.rows(x)
        return x + self.columns(x.transpose(1, 3)).transpose(1, 3)


def mixer(side=SIDE):
    return nn.Sequential(*(nn.Sequential(MixerBlock(side)) for _ in range(2)))
