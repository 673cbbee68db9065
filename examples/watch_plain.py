"""Watch a training loop of your own: geometry every ten steps, and weights that are bit for bit those of the loop without it.

python examples/watch_plain.py
"""

import torch
from torch import Tensor, nn

import isoscope


class Network(nn.Module):
    def __init__(self, words: int = 64, d: int = 32, depth: int = 2) -> None:
        super().__init__()
        self.table, self.places, self.head = nn.Embedding(words, d), nn.Embedding(16, d), nn.Linear(d, words)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.1, batch_first=True) for _ in range(depth))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train(steps: int, *, watched: bool) -> nn.Module:
    torch.manual_seed(0)
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = [torch.randint(0, 64, (16, 16)).sort(1).values for _ in range(steps)]

    def train_step(ids: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    if not watched:
        for batch in loader:
            train_step(batch)
        return model
    with isoscope.watch(model, every=10, data=loader[0], out="runs/plain", optimizer=optimizer) as w:
        for batch in loader:
            loss = train_step(batch)
            w.step(loss=loss)
    return model


if __name__ == "__main__":
    alone, watched = train(30, watched=False).state_dict(), train(30, watched=True).state_dict()
    table = isoscope.open("runs/plain").table()
    last = table[(table["kind"] == "hidden") & (table["layer"] == 2) & (table["policy"] == "all")]
    print(last.pivot_table("value", "step", "metric")[["mean_cosine", "effective_rank", "two_nn"]].round(3).to_string())
    print(table[table["metric"] == "training_loss"][["step", "value"]].round(3).to_string(index=False, header=False))
    print("equal weights:", all(torch.equal(alone[name], watched[name]) for name in alone))
