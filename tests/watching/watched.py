"""A small network that a careless watcher would disturb, and a plain loop that trains it."""

import contextlib
import random

import numpy as np
import pytest
import torch
from torch import nn

from isoscope.core.errors import IsoscopeWarning

D, WORDS = 16, 40


class Block(nn.Module):
    """Attention with weights of its own, dropout, a batch norm; it counts its calls, and keeps a mask from the first."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(D, D) for _ in range(4))
        self.norm, self.drop, self.centre = nn.LayerNorm(D), nn.Dropout(0.2), nn.BatchNorm1d(D)
        self.register_buffer("calls", torch.zeros(()))
        self.mask = None

    def heads(self, x):
        return x.unflatten(-1, (2, -1)).transpose(1, 2)

    def forward(self, x):
        self.calls += 1
        if self.mask is None or self.mask.shape[-1] != x.shape[1]:
            self.mask = torch.ones(x.shape[1], x.shape[1]).tril().log()
        q, k, v = (self.heads(part(self.norm(x))) for part in (self.query, self.key, self.value))
        x = x + self.drop(self.out(nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.mask).transpose(1, 2).flatten(2)))
        return self.centre((x * self.mask.exp()[-1, :, None]).transpose(1, 2)).transpose(1, 2)


class Network(nn.Module):
    """Two blocks; noise is drawn in every forward pass, from every source of chance, whether it trains or not."""

    def __init__(self, noise=1e-3):
        super().__init__()
        self.noise = noise
        self.table, self.blocks, self.head = nn.Embedding(WORDS, D), nn.ModuleList(Block() for _ in range(2)), nn.Linear(D, WORDS)

    def forward(self, ids):
        x = self.table(ids) + self.noise * torch.randn(D) * np.random.rand() * random.random()  # noqa: NPY002
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batches(count=12):
    return list(torch.randint(0, WORDS, (count, 8, 12), generator=torch.Generator().manual_seed(1)))


def train(model, optimizer, steps, watch=None, **more):
    """A plain loop; the losses."""
    losses = []
    for ids in steps:
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if watch is not None:
            watch.step(loss=loss, **more)
    return losses


def started(make=Network):
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)
    model = make()
    model.train()
    return model, torch.optim.AdamW(model.parameters(), lr=3e-3)


def step_and_wait(watch):
    """A step, and all that it has to say."""
    watch.step()
    watch.results()


def failing(error):
    def act(*_, **__):
        raise type(error)(*error.args)

    return act


@contextlib.contextmanager
def warned():
    """The texts of what isoscope warns about, known when the context ends."""
    texts = []
    with pytest.warns(IsoscopeWarning) as told:
        yield texts
    texts += [str(one.message) for one in told]
