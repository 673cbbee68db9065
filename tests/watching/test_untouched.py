"""A look between the forward and the backward pass, under autocast, or at a module that keeps things: the training is the same."""

import contextlib

import pytest
import torch
from torch import nn

import isoscope
from isoscope.watching.untouched import leave_untouched
from tests.watching.watched import WORDS, D, Network, batches, started


class Careless(nn.Module):
    """Uses buffers and attributes in what autograd saves, and writes to them in every forward pass, whether it trains or not."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(WORDS, D), nn.Linear(D, WORDS)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(D, 2, 32, batch_first=True) for _ in range(2))
        self.norm = nn.BatchNorm1d(D)
        self.frozen = nn.BatchNorm1d(D)
        self.register_buffer("scale", torch.ones(D))
        self.same_scale = self.scale
        self.shift = torch.zeros(D)
        self.calls, self.seen, self.kept = 0, [], {}

    def forward(self, ids):
        self.calls += 1
        self.seen.append(len(ids))
        self.kept["last"] = self.calls
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        self.same_scale *= 1.001
        self.shift.add_(0.001 * x.detach().mean((0, 1)))
        self.register_buffer("count", torch.tensor(self.calls))
        x = x * self.scale + (x * self.shift) * (1 + 0.01 * len(self.seen)) * (1 + 0.01 * self.calls)
        x = self.frozen(self.norm(x.transpose(1, 2))).transpose(1, 2)
        self.penalty = x.square().mean()
        return self.head(x)


def trained(make, out, context=contextlib.nullcontext, **options):
    """Train with a look between forward and backward, and another after the step; `out` None: without looks. Losses and the model."""
    model, optimizer = started(make)
    if isinstance(model, Careless):
        model.frozen.eval()
    watching = contextlib.nullcontext() if out is None else isoscope.watch(model, every=1, data=batches()[1], out=out, **options)
    losses = []
    with watching as w:
        for i, ids in enumerate(batches(4)):
            optimizer.zero_grad()
            with context():
                loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
                if w is not None:
                    w.step(step=2 * i + 1)
                loss = loss + 0.1 * model.penalty if isinstance(model, Careless) else loss
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if w is not None:
                w.step(step=2 * i + 2)
    return losses, model


def attributes(model):
    return model.calls, model.seen, model.kept, model.shift.tolist(), model.same_scale is model.scale


@pytest.mark.parametrize("make", [Careless, Network])
def test_a_look_between_forward_and_backward_leaves_the_training(tmp_path, make):
    (expected, alone), (losses, model) = trained(make, None), trained(make, tmp_path / "run")
    assert losses == expected
    ours, theirs = model.state_dict(), alone.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert all(torch.equal(p.grad, q.grad) for p, q in zip(model.parameters(), alone.parameters(), strict=True))
    if make is Careless:
        assert attributes(model) == attributes(alone)
    assert set(isoscope.open(tmp_path / "run").table("mean_cosine")["step"]) == set(range(9))


def autocast():
    return torch.autocast("cpu", torch.bfloat16)


@pytest.mark.parametrize("make", [Careless, lambda: Network(noise=0)])
def test_autocast_around_a_look_changes_neither_its_numbers_nor_the_training(tmp_path, make):
    (expected, alone), (losses, model) = trained(make, None, autocast), trained(make, tmp_path / "run", autocast)
    assert losses == expected
    ours, theirs = model.state_dict(), alone.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert losses != trained(make, None)[0]  # autocast did round
    table = isoscope.open(tmp_path / "run").table()
    assert not table["spec"].str.contains("autocast").any()
    where = ["step", "stack", "kind", "layer", "head", "policy", "metric"]
    model, _ = started(make)
    both = []
    for context, folder in ((autocast, "inside"), (contextlib.nullcontext, "outside")):
        with isoscope.watch(model, every=1, data=batches()[1], out=tmp_path / folder) as w, context():
            w.step()
        both.append(w.results().table().set_index(where)[["value", "low", "high"]].sort_index())
    assert len(both[0]) > 50
    assert both[0].equals(both[1])


def test_measure_under_autocast_measures_what_it_measures_without(tmp_path):
    model, _ = started(lambda: Network(noise=0))
    with autocast():
        inside = isoscope.measure(model, [batches()[1]], tmp_path / "inside", quiet=True).table()["value"]
    outside = isoscope.measure(model, [batches()[1]], tmp_path / "outside", quiet=True).table()["value"]
    assert len(inside) > 50
    assert inside.equals(outside)


class Wide(nn.Module):
    """So wide that products are not taken in float64; its states are whole numbers, which bfloat16 holds exactly."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Identity() for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def test_autocast_of_the_model_itself_is_recorded_and_does_not_round_the_statistics(tmp_path):
    x = torch.randint(-40, 40, (64, 300), generator=torch.Generator().manual_seed(0)).float()

    def feed(module, batch):
        with autocast():
            return module(batch)

    inside = isoscope.measure(Wide(), [x], tmp_path / "inside", feed=feed, blocks="blocks.*", quiet=True).table()
    outside = isoscope.measure(Wide(), [x], tmp_path / "outside", blocks="blocks.*", quiet=True).table()
    assert inside["value"].equals(outside["value"])
    assert inside["spec"].str.contains('"autocast": {"cpu": "bfloat16"}', regex=False).all()
    assert not outside["spec"].str.contains("autocast").any()


def test_evaluation_calls_no_code_of_the_module():
    """loralib and others merge weights in eval(), and only train() takes them apart again."""

    class Merging(nn.Linear):
        merged = False

        def train(self, mode=True):
            self.merged = not mode
            return super().train(mode)

    model = nn.Sequential(Merging(3, 3), nn.Dropout())
    model[1].eval()
    with leave_untouched(model):
        assert [part.training for part in model.modules()] == [False] * 3
    assert [part.training for part in model.modules()] == [True, True, False]
    assert not model[0].merged


def test_the_graph_of_a_compiled_module_with_buffers_is_left_alone(tmp_path):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    def run(watched):
        torch._dynamo.reset()
        graphs.clear()
        model, optimizer = started(lambda: nn.Sequential(*(nn.Sequential(nn.Linear(D, D), nn.BatchNorm1d(D)) for _ in range(3))))
        compiled = torch.compile(model, backend=backend)
        x = torch.randn(5, 32, D, generator=torch.Generator().manual_seed(1))
        options = {"every": 1, "data": x[0], "out": tmp_path / "run", "taps": "hidden"}
        with isoscope.watch(compiled, **options) if watched else contextlib.nullcontext() as w:
            for step in x:
                optimizer.zero_grad()
                loss = compiled(step).square().mean()
                if w is not None:
                    w.step()
                loss.backward()
                optimizer.step()
        return len(graphs), model.state_dict()

    (count, alone), (again, watched) = run(False), run(True)
    assert count == again > 0
    assert all(torch.equal(alone[name], watched[name]) for name in alone)
