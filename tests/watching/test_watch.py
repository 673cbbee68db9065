"""A watched training: what is measured is what `measure` measures, and the training is the one that would have been."""

import contextlib
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import isoscope
from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from tests.watching.watched import D, Network, batches, started, train


def test_a_watched_training_is_bit_for_bit_the_training_without(tmp_path):
    alone, optimizer = started()
    alone.blocks[1].centre.eval()
    expected = train(alone, optimizer, batches(8))
    model, optimizer = started()
    model.blocks[1].centre.eval()  # a part that is frozen stays frozen
    with isoscope.watch(model, every=3, data=batches()[0], out=tmp_path / "run", optimizer=optimizer) as w:
        assert train(model, optimizer, batches(8), w) == expected
    ours, theirs = model.state_dict(), alone.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert [(name, part.training) for name, part in model.named_modules()] == [
        (name, part.training) for name, part in alone.named_modules()
    ]
    assert all(torch.equal(p.grad, q.grad) for p, q in zip(model.parameters(), alone.parameters(), strict=True))
    assert set(w.results().table(policy="every")["step"]) == {0, 3, 6, 8}
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    assert not optimizer._optimizer_step_pre_hooks


def test_a_look_leaves_every_random_state(tmp_path):
    model, _ = started()
    loader = DataLoader(TensorDataset(torch.stack(batches()).flatten(0, 1)), batch_size=8, shuffle=True)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    with isoscope.watch(model, every=1, data=loader, out=tmp_path / "run", feed=lambda module, batch: module(*batch)) as w:
        w.step()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before[1:]  # noqa: NPY002


def test_the_page_can_be_made_while_training_runs(tmp_path):
    from isoscope.report import write_report

    model, optimizer = started()
    with isoscope.watch(model, every=4, data=batches()[0], out=tmp_path / "run", optimizer=optimizer, taps="hidden") as w:
        train(model, optimizer, batches(5), w)
        run = w.results()
        table = run.table(policy="every")
        assert set(table["step"]) == {0, 4}
        few = table[table["metric"].isin(["mean_cosine", "training_loss"])].reset_index(drop=True)
        page = write_report(few, run.series(), run.manifests(), tmp_path / "page.html").read_text("utf-8")
        assert "Network" in page
        assert "training_loss" in page
    assert set(isoscope.open(tmp_path / "run").table(policy="every")["step"]) == {0, 4, 5}


def test_a_resumed_training_goes_on_in_its_run(tmp_path):
    model, optimizer = started()
    for start in (0, 4):
        with isoscope.watch(model, every=2, data=batches()[0], out=tmp_path / "run", optimizer=optimizer, start=start) as w:
            train(model, optimizer, batches(4), w)
    table = w.results().table(policy="every")
    assert sorted(set(table["step"])) == [0, 2, 4, 6, 8]
    assert table[table["metric"].eq("training_loss")]["step"].tolist() == [2, 4, 6, 8]
    assert not table.duplicated(["step", "stack", "kind", "layer", "head", "policy", "metric"]).any()


def test_a_loop_may_count_by_more_than_one(tmp_path):
    model, _ = started()
    with isoscope.watch(model, every=10, data=batches()[0], out=tmp_path / "run", taps="hidden", start=4) as w:
        for step in (7, 11, 14, 18, 33, 35):
            w.step(step=step)
    assert sorted(set(w.results().table(policy="every")["step"])) == [4, 11, 33, 35]


def test_a_training_is_not_stopped_by_what_cannot_be_measured(tmp_path):
    model, optimizer = started()
    with isoscope.watch(model, every=1, data=batches()[0], out=tmp_path / "run") as w:
        train(model, optimizer, batches(1), w)
        with torch.no_grad():
            model.blocks[0].query.weight.fill_(torch.nan)
        with pytest.warns(IsoscopeWarning, match=r"^Step 2 was not measured: Network gives NaN or infinity at backbone\.") as told:
            train(model, optimizer, batches(2), w)
    assert len(told) == 1
    assert told[0].filename.endswith("watched.py")  # the line that called step
    assert w.at == 3
    assert set(w.results().table("mean_cosine")["step"]) == {0, 1}


def test_a_first_look_that_fails_lets_go_of_the_optimiser(tmp_path):
    model, optimizer = started()
    with (
        pytest.raises(IsoscopeError, match="cannot be called with a batch as it is"),
        isoscope.watch(model, data={"words": batches()[0]}, out=tmp_path / "run", optimizer=optimizer),
    ):
        pass
    assert not optimizer._optimizer_step_pre_hooks


def test_the_compiled_graph_is_left_alone(tmp_path):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    def run(watched):
        torch._dynamo.reset()
        graphs.clear()
        torch.manual_seed(0)
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 32, batch_first=True), 2, enable_nested_tensor=False)
        compiled = torch.compile(model, backend=backend)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        probe = torch.randn(4, 6, D, generator=torch.Generator().manual_seed(2))
        with isoscope.watch(compiled, every=2, data=probe, out=tmp_path / "run") if watched else contextlib.nullcontext() as w:
            for x in torch.randn(5, 4, 6, D, generator=torch.Generator().manual_seed(1)):
                optimizer.zero_grad()
                compiled(x).square().mean().backward()
                optimizer.step()
                if w is not None:
                    w.step()
        return len(graphs), model.state_dict()

    (count, alone), (again, watched) = run(False), run(True)
    assert count == again > 0
    assert all(torch.equal(alone[name], watched[name]) for name in alone)
    assert set(isoscope.open(tmp_path / "run").table("mean_cosine")["step"]) == {0, 2, 4, 5}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"data": None}, "isoscope.watch needs data"),
        ({"data": "text"}, "data is a batch"),
        ({"data": []}, "There was no batch"),
        ({"every": 0}, "every is the number of steps"),
        ({"max_tokens": 3}, "There is no option 'max_tokens' of a watch"),
        ({"limits": {"ranc": 0.1}}, "got 'ranc', did you mean rank"),
        ({"limits": {"rank": 2}}, "between 0 and 1; got 2"),
        ({"log": "tensorbord"}, "log takes mlflow, tensorboard, trackio, wandb, or .* got 'tensorbord', did you mean tensorboard"),
        ({"log": 3}, "got int"),
        ({"optimizer": 3}, r"optimizer is a torch\.optim\.Optimizer; got int"),
        ({"model": "bert"}, r"takes a torch\.nn\.Module; got str"),
    ],
)
def test_mistakes_get_one_sentence(tmp_path, given, words):
    plain = {"model": Network(), "data": batches()[0], "out": tmp_path / "run"}
    with pytest.raises(IsoscopeError, match=words):
        isoscope.watch(**plain | given)
