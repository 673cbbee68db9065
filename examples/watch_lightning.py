"""Watch a training of Lightning with a callback; its weights are bit for bit those without it.

python examples/watch_lightning.py
"""

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import isoscope


class Module(lightning.LightningModule):
    def __init__(self, words: int = 64, d: int = 32) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(words, d), nn.Linear(d, words)
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.encoder(self.table(ids)))

    def training_step(self, ids: Tensor, index: int) -> Tensor:
        return nn.functional.cross_entropy(self(ids).flatten(0, 1), ids.flatten())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def train(*callbacks: lightning.Callback) -> dict[str, Tensor]:
    lightning.seed_everything(0, verbose=False)
    model, ids = Module(), torch.randint(0, 64, (320, 16))
    trainer = lightning.Trainer(
        default_root_dir="runs/lightning", max_steps=25, max_epochs=2, accelerator="cpu", devices=1, callbacks=list(callbacks),
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, DataLoader(ids, batch_size=16, shuffle=True))
    return model.state_dict()


if __name__ == "__main__":
    probe = torch.randint(0, 64, (16, 16), generator=torch.Generator().manual_seed(1))
    watched = train(isoscope.LightningWatch(every=10, data=probe))
    table = isoscope.open("runs/lightning/isoscope").table()
    rank = table[(table["metric"] == "effective_rank") & (table["kind"] == "hidden") & (table["policy"] == "all")]
    print(rank.pivot_table("value", "step", "layer").round(2).to_string())
    training = table[table["metric"].isin(["training_loss", "learning_rate", "gradient_norm"])]
    print(training.groupby(["step", "metric"])["value"].mean().unstack().round(5).to_string())
    alone = train()
    print("equal weights:", all(torch.equal(alone[name], watched[name]) for name in alone))
