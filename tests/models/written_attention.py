"""Modules that write attention out by hand, and the calls that a tap sees of them."""

import dataclasses

import torch
from torch import nn
from torch.nn import functional

from isoscope.models.loading.family import Stack
from isoscope.models.tapping.attention_call import AttentionCall
from isoscope.models.tapping.attention_tap import AttentionTap
from isoscope.models.tapping.tap import Tap

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
"""Of Swin v2, which takes 200 from the scores between windows: about a mean of −100 float32 has fewer digits."""


def watch_attention(stacks, run):
    """The calls of one forward pass, and what the untapped and the tapped model give."""
    calls = []
    tap = Tap(stacks, lambda site, state: None)
    with torch.inference_mode():
        plain = run()
        tap.begin()
        with tap.attach(), AttentionTap(tap.running, lambda call: calls.append(copy_call(call))):
            tapped = run()
    return calls, (plain, tapped)


def copy_call(call):
    """What a call held, copied: models write over it."""
    held = {field.name: getattr(call, field.name) for field in dataclasses.fields(call)}
    copies = {id(value): value.clone() for value in held.values() if isinstance(value, torch.Tensor)}
    return dataclasses.replace(call, **{name: copies[id(value)] for name, value in held.items() if id(value) in copies})


def scores_of(call: AttentionCall) -> torch.Tensor:
    """(b, h, t, s) scale · q kᵀ + bias in float64, closed positions at −∞."""
    key = call.key.double().repeat_interleave(call.query.shape[1] // call.key.shape[1], 1)
    scores = call.scale * (call.query.double() @ key.mT)
    scores = scores if call.bias is None else scores + call.bias.double()
    return scores if call.mask is None else scores.masked_fill(~call.mask, -torch.inf)


class Block(nn.Module):
    """A hand-written block: `attend(self, q, k)` gives weights (b, h, t, s) for queries and keys (b, t, h · e)."""

    def __init__(self, attend, heads=3, width=12, keys=12):
        super().__init__()
        self.attend, self.heads = attend, heads
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, keys), nn.Linear(width, width)
        self.router = nn.Linear(width, 2)

    def forward(self, x):
        weights = self.attend(self, self.q(x), self.k(x))
        mixed = (weights @ split_heads(self.v(x), self.heads)).transpose(1, 2).flatten(2)
        return x + mixed * functional.softmax(self.router(x), -1)[..., :1]  # a softmax without a product is no attention


class Model(nn.Module):
    """Blocks, and attention that is outside of them: over a learned pooling query."""

    def __init__(self, *blocks):
        super().__init__()
        self.layers = nn.ModuleList(blocks)
        self.pool = nn.Parameter(torch.randn(1, 1, 12))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return functional.scaled_dot_product_attention(self.pool.expand(len(x), 1, 12), x, x)


def split_heads(x, heads):
    """(b, h, t, e)"""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def folded_heads(x, heads):
    """(b · h, t, e)"""
    return split_heads(x, heads).flatten(0, 1)


def time_first(x, heads):
    """(b · h, t, e) without a tensor of four axes on the way."""
    b, t, d = x.shape
    return x.transpose(0, 1).contiguous().view(t, b * heads, d // heads).transpose(0, 1)


def rotated(x):
    """Rotary by complex numbers, (b, t, h, e)."""
    angles = torch.arange(x.shape[1])[:, None, None] / 10 ** torch.arange(x.shape[-1] // 2)
    turned = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(3).type_as(x)


def halves(x):
    """Rotary of half of each head, written into it, (b, h, t, e)."""
    r = x.shape[-1] // 2
    angles = torch.arange(x.shape[2])[:, None] / 10 ** torch.arange(r // 2).repeat(2)
    part = x[..., :r]
    x[..., :r] = part * angles.cos() + torch.cat((-part[..., r // 2 :], part[..., : r // 2]), -1) * angles.sin()
    return x


def unbound(q, k):
    """Queries and keys stacked, heads folded into the batch, and taken apart."""
    both = torch.stack([q, k]).unflatten(-1, (3, -1)).permute(0, 1, 3, 2, 4)
    q, k = both.reshape(2, -1, *both.shape[-2:]).unbind(0)
    return ((q * 0.5) @ k.transpose(-2, -1)).softmax(-1).unflatten(0, (-1, 3))


def in_place(block, q, k):
    scores = split_heads(q, 3) @ split_heads(k, 3).transpose(-1, -2)
    scores *= 0.5
    scores.masked_fill_(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    scores -= scores.amax(-1, keepdim=True)
    return functional.softmax(scores, -1)


def einsum(equation, dim, order):
    def attend(block, q, k):
        scores = torch.einsum(equation, q.unflatten(-1, (3, -1)), k.unflatten(-1, (3, -1))) / 2
        return torch.softmax(scores, dim).permute(order)

    return attend


WRITTEN = {
    "matmul": lambda _, q, k: (split_heads(q, 3) @ split_heads(k, 3).mT / 2).softmax(-1),
    "scale within": lambda _, q, k: nn.Softmax(-1)((split_heads(q, 3) * 0.25) @ (2 * split_heads(k, 3).transpose(2, 3))),
    "einsum": einsum("bthe,bshe->bhts", -1, (0, 1, 2, 3)),
    "heads last": einsum("bthe,bshe->btsh", 2, (0, 3, 1, 2)),
    "ellipsis": lambda _, q, k: torch.einsum("...te,...se->...ts", split_heads(q, 3) / 2, split_heads(k, 3)).softmax(-1),
    "keys by queries": lambda _, q, k: torch.softmax(torch.matmul(split_heads(k, 3), split_heads(q, 3).mT) / 2, -2).mT,
    "turned": lambda _, q, k: torch.softmax((split_heads(k, 3) @ split_heads(q, 3).mT).transpose(2, 3).mul(0.5), -1),
    "bmm": lambda _, q, k: torch.bmm(folded_heads(q, 3) / 2, folded_heads(k, 3).mT).softmax(-1).unflatten(0, (-1, 3)),
    "bmm, unfolded": lambda _, q, k: torch.bmm(folded_heads(q, 3), folded_heads(k, 3).mT / 2).unflatten(0, (-1, 3)).softmax(-1),
    "time first": lambda _, q, k: torch.bmm(time_first(q, 3), time_first(k, 3).mT / 2).softmax(-1).unflatten(0, (-1, 3)),
    "baddbmm": lambda _, q, k: (
        torch.baddbmm(torch.empty(len(q) * 3, 9, 9), folded_heads(q, 3), folded_heads(k, 3).mT, beta=0, alpha=0.5)
        .softmax(-1)
        .unflatten(0, (-1, 3))
    ),
    "float64": lambda _, q, k: functional.softmax(split_heads(q, 3) @ split_heads(k, 3).mT / 2, -1, dtype=torch.float64).float(),
    "in place": in_place,
    "unbound": lambda _, q, k: unbound(q, k),
    "biased": lambda _, q, k: (split_heads(q, 3) @ split_heads(k, 3).mT / 2 + torch.arange(9) / 9).softmax(-1),
    "capped": lambda _, q, k: (3 * torch.tanh(split_heads(q, 3) @ split_heads(k, 3).mT / 2 / 3)).softmax(-1),
    "complex rotary": lambda _, q, k: (
        rotated(q.unflatten(-1, (3, -1))).transpose(1, 2) @ rotated(k.unflatten(-1, (3, -1))).permute(0, 2, 3, 1) / 2
    ).softmax(-1),
    "rotary in place": lambda _, q, k: (halves(split_heads(q, 3)) @ halves(split_heads(k, 3)).mT / 2).softmax(-1),
    "one key head": lambda _, q, k: (split_heads(q, 3) @ split_heads(k, 1).mT / 2).softmax(-1),
    "repeated keys": lambda _, q, k: (split_heads(q, 3) @ split_heads(k, 1).repeat_interleave(3, 1).mT / 2).softmax(-1),
}


def labels(model):
    tap, labels = Tap({"encoder": Stack(model, "layers.*")}, lambda site, state: None), []
    tap.begin()
    with torch.inference_mode(), tap.attach(), AttentionTap(tap.running, lambda call: labels.append(call.site.label)):
        model(torch.randn(2, 9, 12))
    return labels
