"""Callbacks count steps of the optimiser, not batches, and take gradients while they are there."""

import importlib
import sys

import pytest
import torch

import isoscope
from tests.watching.watched import WORDS, batches

ROWS = [{"input_ids": row, "labels": row} for row in torch.cat(batches())]


def small_bert():
    import transformers as t

    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 16}
    return t.BertForMaskedLM(t.BertConfig(vocab_size=WORDS, **size))


def test_the_trainer_accumulates_gradients(tmp_path):
    from transformers import Trainer, TrainerCallback, TrainingArguments

    norms = {}

    class Norms(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **_):
            norms[state.global_step + 1] = float(model.bert.encoder.layer[0].attention.self.key.weight.grad.norm())

    quiet = {"save_strategy": "no", "report_to": [], "disable_tqdm": True, "use_cpu": True, "logging_strategy": "no"}
    args = TrainingArguments(tmp_path, max_steps=4, gradient_accumulation_steps=2, per_device_train_batch_size=8, **quiet)
    callback = isoscope.WatchCallback(every=2, data={"input_ids": batches()[0]}, name="small")
    Trainer(small_bert(), args, train_dataset=ROWS, callbacks=[callback, Norms()]).train()
    table = isoscope.open(tmp_path / "isoscope").table()
    found = table[table["metric"].eq("gradient_norm") & table["kind"].eq("key")]
    assert dict(zip(found["step"], found["value"], strict=True)) == pytest.approx({step: norms[step] for step in (2, 4)}, rel=1e-6)
    assert set(table["model"]) == {"small"}
    assert set(table["step"]) == {0, 2, 4}


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning_goes_by_two_names(tmp_path, package, monkeypatch):
    from isoscope.watching import callbacks

    pl = importlib.import_module(package)
    other = ({"lightning.pytorch", "pytorch_lightning"} - {package}).pop()
    monkeypatch.delitem(sys.modules, other, raising=False)
    callbacks._make_callback.cache_clear()
    losses = []

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.bert = small_bert()

        def training_step(self, batch, index):
            losses.append(self.bert(**batch).loss)
            return losses[-1]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.5)

    options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    callback = isoscope.LightningWatch(every=2, data=batches()[0], feed=lambda module, ids: module.bert(ids))
    assert isinstance(callback, pl.Callback)
    trainer = pl.Trainer(
        default_root_dir=tmp_path, max_steps=3, accumulate_grad_batches=2, accelerator="cpu", devices=1, callbacks=[callback], **options
    )
    trainer.fit(Module(), torch.utils.data.DataLoader(ROWS, batch_size=8))
    callbacks._make_callback.cache_clear()
    table = isoscope.open(tmp_path / "isoscope").table()
    assert sorted(set(table["step"])) == [0, 2, 3]
    loss = table[table["metric"].eq("training_loss")]
    assert dict(zip(loss["step"], loss["value"], strict=True)) == pytest.approx({2: losses[3].item(), 3: losses[5].item()}, rel=1e-6)
    assert table[table["metric"].eq("learning_rate")]["value"].tolist() == [0.5]


def test_a_callback_that_never_began_does_nothing():
    callback = isoscope.WatchCallback(data=torch.zeros(1, 1))
    callback.on_step_end(None, None, None)
    callback.on_train_end(None, None, None)
    assert callback.watch is None
