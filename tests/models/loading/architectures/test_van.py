"""VAN, computed in another way."""

import math
from itertools import product

import numpy as np
import torch
from scipy.special import erf

from tests.models.published_architectures import inputs, little, stirred


def convolve(x, conv):
    """A convolution as a sum over the places of its kernel: (b, c, h, w) with the weights of a Conv2d."""
    w, bias = conv.weight.detach().double().numpy(), conv.bias.detach().double().numpy()
    stride, pad, step, groups = conv.stride[0], conv.padding[0], conv.dilation[0], conv.groups
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    high, wide = ((size - step * (w.shape[2] - 1) - 1) // stride + 1 for size in x.shape[2:])
    y = np.zeros((len(x), w.shape[0], high, wide))
    for i, j in product(range(w.shape[2]), range(w.shape[3])):
        seen = x[:, :, i * step : i * step + stride * high : stride, j * step : j * step + stride * wide : stride][:, :, :high, :wide]
        y += np.einsum("gof,bgfhw->bgohw", *_grouped(w[:, :, i, j], seen, groups)).reshape(y.shape)
    return y + bias[:, None, None]


def _grouped(w, x, groups):
    return w.reshape(groups, -1, w.shape[1]), x.reshape(len(x), groups, -1, *x.shape[2:])


def batch_norm(x, norm):
    """What a BatchNorm2d does once trained."""
    mean, var, weight, bias = (
        t.detach().double().numpy()[:, None, None] for t in (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    )
    return (x - mean) / np.sqrt(var + norm.eps) * weight + bias


def gelu(x):
    """x·Φ(x)."""
    return x * (1 + erf(x / math.sqrt(2))) / 2


def van_by_hand(model, x):
    """Scores of a VanForImageClassification in float64, and the map that leaves each block."""
    maps = []
    for stage in model.van.encoder.stages:
        x = batch_norm(convolve(x, stage.embeddings.convolution), stage.embeddings.normalization)
        for block in stage.layers:
            scale, wide = (t.weight.detach().double().numpy()[:, None, None] for t in (block.attention_scaling, block.mlp_scaling))
            n = batch_norm(x, block.pre_normomalization)
            inner = gelu(convolve(n, block.attention.pre_projection.conv))
            large = block.attention.attention_layer.attention
            gate = convolve(convolve(convolve(inner, large.depth_wise), large.depth_wise_dilated), large.point_wise)
            x = x + scale * (n + convolve(inner * gate, block.attention.post_projection))
            n = gelu(convolve(convolve(batch_norm(x, block.post_normalization), block.mlp.in_dense), block.mlp.depth_wise))
            x = x + wide * convolve(n, block.mlp.out_dense)
            maps.append(x)
        norm = stage.normalization
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + norm.eps)
        x = x * norm.weight.detach().double().numpy()[:, None, None] + norm.bias.detach().double().numpy()[:, None, None]
    head = model.classifier
    return x.mean((2, 3)) @ head.weight.detach().double().numpy().T + head.bias.detach().double().numpy(), maps


def test_van_computes_what_sums_over_its_kernels_compute():
    model, image = little("van"), inputs("van")["pixel_values"]
    caught = []
    handles = [
        block.register_forward_hook(lambda module, args, output: caught.append(output))
        for stage in model.van.encoder.stages
        for block in stage.layers
    ]
    with torch.inference_mode():
        found = model(image, output_hidden_states=True)
    for handle in handles:
        handle.remove()
    scores, maps = van_by_hand(model, image.double().numpy())
    np.testing.assert_allclose(found.logits.numpy(), scores, rtol=1e-3, atol=1e-4)
    assert [tuple(map_.shape) for map_ in found.hidden_states] == [(2, 4, 16, 24), (2, 6, 8, 12), (2, 8, 4, 6), (2, 10, 2, 3)]
    for got, expected in zip(caught, maps, strict=True):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_the_large_kernel_sees_a_field_of_23_pixels():
    """5 × 5 and then 7 × 7 at every third pixel reach 2 + 9 to each side."""
    gate = stirred(little("van").van.encoder.stages[0].layers[0].attention.attention_layer)
    point = torch.zeros(1, 4, 41, 41)
    with torch.inference_mode():
        blank = gate.attention(point)
        point[0, :, 20, 20] = 1
        rows = (gate.attention(point) != blank).any(dim=1)[0].any(dim=1).nonzero().flatten()
    assert (int(rows.min()), int(rows.max())) == (9, 31)
