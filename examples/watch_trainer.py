"""Watch a training of the Hugging Face Trainer with a callback; its weights are bit for bit those without it.

python examples/watch_trainer.py
"""

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments

import isoscope

SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 32}


class Sentences(Dataset):
    def __init__(self, count: int = 160) -> None:
        self.ids = torch.randint(5, 64, (count, 16), generator=torch.Generator().manual_seed(0)).sort(1).values

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        hidden = torch.rand(16, generator=torch.Generator().manual_seed(i)) < 0.3
        return {"input_ids": self.ids[i].masked_fill(hidden, 4), "labels": self.ids[i].masked_fill(~hidden, -100)}


def train(*callbacks: object) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(vocab_size=64, **SIZE))
    args = TrainingArguments(
        "runs/trainer", max_steps=25, per_device_train_batch_size=16, learning_rate=3e-3, logging_steps=10, save_strategy="no",
        report_to=[], disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    Trainer(model, args, train_dataset=Sentences(), callbacks=list(callbacks)).train()
    return model.state_dict()


if __name__ == "__main__":
    probe = {"input_ids": Sentences().ids[:16]}
    watched = train(isoscope.WatchCallback(every=10, data=probe))
    table = isoscope.open("runs/trainer/isoscope").table()
    entropy = table[(table["metric"] == "attention_entropy_normalised") & (table["policy"] == "all")]
    print(entropy.groupby(["step", "layer"])["value"].mean().unstack().round(3).to_string())
    training = table[table["metric"].isin(["training_loss", "learning_rate", "gradient_norm"])]
    print(training.groupby(["step", "metric"])["value"].mean().unstack().round(5).to_string())
    alone = train()
    print("equal weights:", all(torch.equal(alone[name], watched[name]) for name in alone))
