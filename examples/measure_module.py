"""Measure a torch.nn.Module of your own: batches go in, a table comes out. The blocks are found; every row of a batch is an item.

python examples/measure_module.py
"""

import torch
from torch import Tensor, nn

import isoscope


class Block(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Network(nn.Module):
    def __init__(self, words: int = 100, d: int = 32, depth: int = 3) -> None:
        super().__init__()
        self.table, self.blocks, self.norm = nn.Embedding(words, d), nn.ModuleList(Block(d) for _ in range(depth)), nn.LayerNorm(d)

    def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


batches = [{"ids": torch.randint(1, 100, (16, 20)), "attention_mask": torch.ones(16, 20)} for _ in range(10)]
run = isoscope.measure(Network(), batches, quiet=True)
print(run.table("mean_cosine", policy="all")[["kind", "layer", "n", "value", "low", "high"]].to_string(index=False))
