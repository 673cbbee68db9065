"""Blocks are found by structure or by name; their states, and those around their last norm and activation, are the expected ones."""

import numpy as np
import pytest
import torch
from torch import nn

import isoscope
from isoscope.models.loading.load import load_model
from isoscope.models.naming.model_name import resolve_model
from isoscope.models.tapping.blocks import activation_null, find_blocks, number_stages
from isoscope.sources import open_source
from tests.models.brute_layers import brute
from tests.models.zoo import ZOO, build, images

BY_TITLE = {small.title: small for small in ZOO}


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    return str(images(tmp_path_factory.mktemp("images")))


def measured(title, photographs, folder, **options):
    built = build(BY_TITLE[title], folder / "model")
    table = isoscope.measure(str(built), photographs, folder / "run", quiet=True, batch_size=2, **options).table(policy="every")
    loaded = load_model(resolve_model(str(built)))
    reader = loaded.family.reader(loaded, None)
    fed = [reader.feed(reader.chunks(item.content)).arguments for item in open_source(photographs, None, "images").items()]
    return table, loaded, fed


def row(table, kind, layer, metric, policy="all"):
    found = table.query("kind == @kind and layer == @layer and metric == @metric and policy == @policy")
    assert len(found) == 1
    return found.iloc[0]


def test_a_map_is_one_vector_an_image_or_one_a_position(photographs, tmp_path):
    table, loaded, fed = measured("ResNet", photographs, tmp_path, image_maps="both")
    with torch.inference_mode():
        first = [loaded.base.embedder(arguments["pixel_values"])[0].double().numpy() for arguments in fed]
    each = np.concatenate([state.reshape(len(state), -1).T for state in first])
    whole = np.stack([state.ravel() for state in first])
    for kind, points in (("hidden", each), ("map", whole)):
        owner = np.arange(len(points)) // (len(points) // len(fed))
        expected = brute(points, owner)
        assert (row(table, kind, 0, "mean_cosine").n, row(table, kind, 0, "mean_cosine").d) == points.shape
        for name in ("mean_cosine", "drift_norm", "mean_norm"):
            assert row(table, kind, 0, name).value == pytest.approx(expected[name], rel=1e-5)


@pytest.mark.parametrize(("maps", "kinds"), [("per-image", {"map"}), ("per-position", {"hidden"})])
def test_only_the_reading_that_was_asked_for(maps, kinds, photographs, tmp_path):
    table, _, _ = measured("ConvNeXt", photographs, tmp_path, image_maps=maps)
    inner = {"before_norm", "after_norm", "before_activation", "after_activation"}
    assert set(table["kind"]) - inner == kinds


def test_states_around_the_last_norm_and_activation(photographs, tmp_path):
    """Of a bottleneck of ResNet: its third norm, and the activation behind the sum, whose output leaves the block."""
    table, loaded, fed = measured("ResNet", photographs, tmp_path)
    block = loaded.base.encoder.stages[1].layers[1]
    caught = {}

    def catch(name):
        def hook(module, args, output):
            caught.setdefault(f"before_{name}", []).append(args[0].clone())  # the block goes on in place
            caught.setdefault(f"after_{name}", []).append(output.clone())

        return hook

    handles = [
        block.layer[2].normalization.register_forward_hook(catch("norm")),
        block.activation.register_forward_hook(catch("activation")),
    ]
    with torch.inference_mode():
        for arguments in fed:
            loaded.base(**arguments)
    for handle in handles:
        handle.remove()
    for kind, states in caught.items():
        points = np.concatenate([state[0].double().numpy().reshape(state.shape[1], -1).T for state in states])
        alive = points[np.linalg.norm(points, axis=1) > 0]  # behind a rectifier all may be zero; such points have no direction
        image = np.repeat(np.arange(len(states)), len(points) // len(states))
        product = points @ points.T
        expected = {
            "mean_cosine": brute(alive, np.arange(len(alive)))["mean_cosine"],
            "drift_norm": max(float(product[image[:, None] != image].mean()), 0.0) ** 0.5,
        }
        for name, value in expected.items():
            assert row(table, kind, 3, name).value == pytest.approx(value, rel=1e-5), (kind, name)
    assert row(table, "after_activation", 3, "mean_cosine").value == row(table, "hidden", 3, "mean_cosine").value
    assert "top_share" not in set(table.query("kind == 'after_norm'")["metric"])


def test_behind_a_rectifier_the_null_is_one_over_pi(photographs, tmp_path):
    table, _, _ = measured("ResNet", photographs, tmp_path)
    for kind in ("hidden", "after_activation"):
        assert row(table, kind, 2, "mean_cosine").null == pytest.approx(1 / np.pi, abs=1e-4)
        assert row(table, kind, 2, "between_cosine").null == pytest.approx(1 / np.pi, abs=1e-4)
    assert row(table, "hidden", 0, "mean_cosine").null == 0  # what enters the first block comes from pooling, not from a rectifier
    assert row(table, "before_activation", 2, "mean_cosine").null == 0
    assert row(table, "hidden", 2, "drift_ratio").null < 0.1


@pytest.mark.parametrize("module", [nn.ReLU(), nn.ReLU(inplace=True), nn.GELU(), nn.SiLU(), nn.Tanh(), nn.Sigmoid()])
def test_the_null_of_an_activation_is_what_simulation_gives(module):
    x = module(torch.from_numpy(np.random.default_rng(0).standard_normal((400, 20_000))))
    u = (x / x.norm(dim=1, keepdim=True)).sum(0)
    assert activation_null(module) == pytest.approx((float(u @ u) - 400) / (400 * 399), abs=2e-3)


def test_a_gate_of_one_position_is_not_a_state(photographs, tmp_path):
    """EfficientNet's blocks end in a squeeze whose sigmoid has one position; the last activation of the map is meant."""
    table, _, _ = measured("EfficientNet", photographs, tmp_path)
    assert row(table, "after_activation", 1, "mean_cosine").n == row(table, "hidden", 1, "mean_cosine").n


def test_stages_are_marked(photographs, tmp_path):
    build(BY_TITLE["ResNet"], tmp_path / "model")
    results = isoscope.measure(str(tmp_path / "model"), photographs, tmp_path / "run", quiet=True)
    assert results.manifests()[0]["spec"]["stages"] == {"backbone": [1, 2, 2]}


def test_blocks_by_structure_and_by_name():
    """As torchvision writes a ResNet: blocks in lists that are not in a list themselves."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 4, 3)
            self.layer1 = nn.Sequential(_block(), _block())
            self.layer2 = nn.Sequential(_block(), _block(), _block())
            self.fc = nn.Linear(4, 10)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(7))

    _block = Block
    found = find_blocks(Net(), "backbone")
    assert [path for path, _ in found] == ["layer1.0", "layer1.1", "layer2.0", "layer2.1", "layer2.2"]
    assert number_stages(found) == [1, 1, 2, 2, 2]
    assert [path for path, _ in find_blocks(Net(), "backbone", "layer2.*")] == ["layer2.0", "layer2.1", "layer2.2"]
    with pytest.raises(isoscope.IsoscopeError, match="matches 'layers"):
        find_blocks(Net(), "backbone", "layers.*")
    with pytest.raises(isoscope.IsoscopeError, match="name them"):
        find_blocks(nn.Linear(3, 3), "backbone")


@pytest.mark.parametrize("title", ["ConvNeXt", "ConvNeXt V2"])
def test_channels_may_come_last_within_a_block(title, photographs, tmp_path):
    """ConvNeXt turns its maps within a block. The first stage here has as many channels as rows and columns, which must not matter."""
    table, loaded, fed = measured(title, photographs, tmp_path)
    for layer, block in enumerate([loaded.base.encoder.stages[0].layers[0], loaded.base.encoder.stages[1].layers[1]]):
        layer, states = (1, 3)[layer], {"norm": [], "activation": []}
        handles = [
            block.layernorm.register_forward_hook(lambda m, a, out, s=states: s["norm"].append(out)),
            block.act.register_forward_hook(lambda m, a, out, s=states: s["activation"].append(out)),
        ]
        with torch.inference_mode():
            for arguments in fed:
                loaded.base(**arguments)
        for handle in handles:
            handle.remove()
        for name, found in states.items():
            points = np.concatenate([state[0].double().numpy().reshape(-1, state.shape[-1]) for state in found])
            kept = row(table, f"after_{name}", layer, "mean_cosine")
            assert (kept.n, kept.d) == points.shape
            assert kept.value == pytest.approx(brute(points, np.arange(len(points)))["mean_cosine"], rel=1e-5)


def test_a_sequence_of_plain_layers_is_one_block():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)) for _ in range(3))

    assert [path for path, _ in find_blocks(Net(), "backbone")] == ["layers.0", "layers.1", "layers.2"]
    assert [path for path, _ in find_blocks(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)), "backbone")] == ["0", "2"]


@pytest.mark.parametrize("title", ["ViT", "ResNet"])
def test_positions_of_great_norm_are_split_off_in_images_too(title, photographs, tmp_path):
    whole, _, _ = measured(title, photographs, tmp_path)
    split = isoscope.measure(tmp_path / "model", photographs, tmp_path / "split", quiet=True, batch_size=2, split_body=("sink",)).table(
        policy="every"
    )
    same = split[split["policy"].isin(["all", "no-special", "body"])]
    columns = ["kind", "layer", "policy", "metric"]
    both = whole.merge(same, on=columns, suffixes=("", "_split")).query("metric in ('mean_norm', 'mean_cosine', 'drift_norm')")
    assert len(both) >= 9
    assert np.allclose(both["value"], both["value_split"], rtol=1e-6)
    counts = split.query("metric == 'mean_norm'").pivot_table(index=["kind", "layer"], columns="policy", values="n", fill_value=0)
    assert (counts["body-no-sink"] + counts.get("sink", 0) == counts["body"]).all()
    with pytest.raises(isoscope.IsoscopeError, match="--split-body frequency divides tokens"):
        isoscope.measure(tmp_path / "model", photographs, tmp_path / "refused", quiet=True, split_body=("frequency",))
