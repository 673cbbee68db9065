"""What a measurement in inference mode leaves behind may not stand in the way of a training in the same process."""

import torch
from safetensors.torch import load_file

import isoscope
from isoscope.training.run_training import run_training


def test_a_model_is_measured_then_watched_and_trained(small_models, texts, tmp_path):
    isoscope.measure(str(small_models("bert")), str(texts), tmp_path / "run", max_items=3, quiet=True)
    network = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, 48, batch_first=True), 3, enable_nested_tensor=False)
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    batch = torch.randn(4, 8, 32)
    with isoscope.watch(network, every=1, data=[batch], out=tmp_path / "watched", optimizer=optimizer) as watch:
        network(batch).sum().backward()
        optimizer.step()
        watch.step(loss=1.0)
    assert len(isoscope.open(tmp_path / "watched").table())


def test_a_suite_is_measured_and_another_trained(tmp_path):
    """Trained again after a measurement, it has the same weights."""
    suite = run_training("causal-text", tmp_path / "a", threads=1, quiet=True, steps=1, width=32, heads=1, layers=1, batch=2)
    isoscope.measure(str(suite / "seed-0/step-1"), "embedded", tmp_path / "run", max_items=1, quiet=True)
    run_training("causal-text", tmp_path / "b", threads=1, quiet=True, steps=1, width=32, heads=1, layers=1, batch=2)
    one, two = (load_file(tmp_path / name / "seed-0" / "step-1" / "model.safetensors") for name in ("a", "b"))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
