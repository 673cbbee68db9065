"""A training that is made to collapse is reported, in words, once for each kind of collapse."""

import json

import pytest
import torch
from torch import nn

import isoscope
from isoscope.core.errors import IsoscopeWarning
from tests.watching.watched import Network, batches, started, step_and_wait


def trained(w, model, optimizer, loss_of, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model(batches()[0]))
        loss.backward()
        optimizer.step()
        w.step(loss=loss)


def plain():
    """Without batch norms, which would undo it."""
    model = Network(noise=0)
    for block in model.blocks:
        block.centre = nn.Identity()
    return model


def apart(x):
    """How far states are from pointing one way."""
    u = nn.functional.normalize(x, dim=-1)
    return 1 - (u @ u.T).mean()


def spread(x):
    """How much of the variance of states lies off one line."""
    values = torch.linalg.svdvals(x - x.mean(0)).square()
    return 1 - values[0] / values.sum()


@pytest.mark.parametrize(
    ("loss_of", "kind", "metric", "words"),
    [
        (apart, "cosine", "mean_cosine", "above 0.98 its states all point almost the same way"),
        (spread, "rank", "effective_rank", "under 0.25 of what it was its states are collapsing onto few directions"),
    ],
)
def test_a_training_that_makes_states_collapse_is_reported(tmp_path, loss_of, kind, metric, words):
    model, _ = started(plain)
    states = []
    model.blocks[1].register_forward_hook(lambda _, args, output: states.append(output.flatten(0, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    with pytest.warns(IsoscopeWarning) as told, isoscope.watch(model, every=20, data=batches()[0], out=tmp_path / "run") as w:
        trained(w, model, optimizer, lambda _: loss_of(states[-1]), 60)
    said = str(told[0].message)
    assert len(told) == 1
    assert words in said
    assert w.warnings == [said]
    table = w.results().table()
    rows = table[table["metric"].eq(f"collapse_{kind}")]
    assert rows["step"].max() == 60  # it is told once, and marked as long as it lasts
    assert json.loads(rows["spec"].iloc[0])["note"] == said
    assert said.startswith(f"Step {rows['step'].min()}: ")
    measured = table[table["metric"].eq(metric) & table["policy"].eq("all") & table["kind"].eq("hidden")].pivot_table(
        "value", "step", "layer"
    )
    broken = measured.gt(0.98) if kind == "cosine" else (measured / measured.cummax()).lt(0.25)
    assert broken.any(axis=1).idxmax() == rows["step"].min() > 0


def test_attention_that_comes_to_rest_on_one_position_is_reported(tmp_path):
    model, _ = started(plain)
    with isoscope.watch(model, every=1, data=batches()[0], out=tmp_path / "run") as w:
        w.step()
        with torch.no_grad():
            for weight in (model.blocks[1].query.weight, model.blocks[1].key.weight):
                weight.mul_(60)
        with pytest.warns(IsoscopeWarning, match=r"^Step 2: the entropy of attention in layer 2, over its heads, is 0\.0\d+ of that"):
            step_and_wait(w)
    rows = w.results().table()
    rows = rows[rows["metric"].eq("attention_entropy_normalised") & rows["policy"].eq("all") & rows["layer"].eq(2)]
    means = rows.groupby("step")["value"].mean()
    assert means[2] < 0.05 < 0.5 < means[1]


def test_limits_can_be_moved(tmp_path):
    model, _ = started(plain)
    with (
        pytest.warns(IsoscopeWarning, match="above 0 its states"),
        isoscope.watch(model, data=batches()[0], out=tmp_path / "run", limits={"cosine": 0.0}),
    ):
        pass
