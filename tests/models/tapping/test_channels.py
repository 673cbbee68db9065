"""Maps of modules: which axis holds the channels is learned from the layers that read and make them, or refused; it is never guessed."""

import numpy as np
import pytest
import torch

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.models.loading.load import load_model
from isoscope.models.naming.model_name import resolve_model
from isoscope.models.tapping.tap import Tap
from isoscope.sources import open_source
from tests.models.brute_layers import brute
from tests.models.channel_networks import SIDE, ConvNeXt, Convolutions, Scales, Swin, mixer
from tests.models.zoo import ZOO, build

IMAGES = torch.randn(12, 3, 2 * SIDE, 2 * SIDE, generator=torch.Generator().manual_seed(1))


def measured(module, batches, folder, **options):
    return isoscope.measure(module, batches, folder, quiet=True, sample=64, **options)


def points(state, channels):
    """A map as (items, positions, dimensions), by hand."""
    state = state.detach().double().numpy()
    return state.reshape(len(state), -1, state.shape[-1]) if channels == "last" else state.reshape(*state.shape[:2], -1).swapaxes(1, 2)


def agrees(results, module, blocks, x, channels):
    """Dimension, count and numbers of every state, against those of the blocks' own inputs and outputs."""
    states = []
    handles = [blocks[0].register_forward_pre_hook(lambda _, args: states.append(args[0].clone()))]
    handles += [block.register_forward_hook(lambda _, args, output: states.append(output.clone())) for block in blocks]
    with torch.no_grad():
        module.eval()(x)
    for handle in handles:
        handle.remove()
    table = results.table()
    for layer, state in enumerate(states):
        own = points(state, channels)
        rows = table[table["kind"].eq("hidden") & table["layer"].eq(layer)].set_index("metric")
        assert (rows.loc["mean_cosine", "n"], rows.loc["mean_cosine", "d"]) == (own.shape[0] * own.shape[1], own.shape[2])
        expected = brute(own.reshape(-1, own.shape[-1]), np.repeat(np.arange(len(own)), own.shape[1]))
        for name in ("mean_cosine", "mean_norm", "top_share", "effective_rank"):
            assert rows.loc[name, "value"] == pytest.approx(expected[name], rel=1e-5, abs=1e-6), (layer, name)
    assert len(states) == table[table["kind"].eq("hidden")]["layer"].nunique()


def stages(module):
    return [block for stage in (module.features[0], module.features[2]) for block in stage]


@pytest.mark.parametrize("channels", [None, "last"])
@pytest.mark.parametrize("c", [8, SIDE])  # in the second case height, width and channels are equal
@pytest.mark.parametrize("after", [False, True])
def test_swin_has_channels_last(tmp_path, after, c, channels):
    torch.manual_seed(0)
    module = Swin(c, after=after)
    results = measured(module, list(IMAGES.split(5)), tmp_path, channels=channels)
    agrees(results, module, stages(module), IMAGES, "last")
    assert results.manifests()[0]["spec"].get("channels") == (None if channels else "last")
    final = results.table("mean_norm").query("kind == 'final'").iloc[0]
    assert (final["n"], final["d"]) == (12 * (SIDE // 2) ** 2, 2 * c)


@pytest.mark.parametrize("channels", [None, "first"])
@pytest.mark.parametrize("c", [8, SIDE])
def test_convnext_has_channels_first_although_it_permutes(tmp_path, c, channels):
    torch.manual_seed(0)
    module = ConvNeXt(c)
    results = measured(module, list(IMAGES.split(5)), tmp_path, channels=channels)
    agrees(results, module, stages(module), IMAGES, "first")


@pytest.mark.parametrize("c", [8, SIDE])
def test_convolutions_have_channels_first(tmp_path, c):
    torch.manual_seed(0)
    module = Convolutions(c)
    agrees(measured(module, list(IMAGES.split(5)), tmp_path), module, list(module.layers), IMAGES, "first")


@pytest.mark.parametrize("name", ["Swin", "Swinv2", "ConvNext", "ConvNextV2"])
def test_models_of_transformers_as_modules(tmp_path, name):
    """States of Swin have three axes; those of ConvNeXt are maps with a layer norm of either layout within."""
    import transformers

    torch.manual_seed(0)
    depths = {"depths": [2, 2]} | ({"embed_dim": 16, "num_heads": [2, 4], "window_size": 4, "image_size": 32} if "Swin" in name else {})
    sizes = {"patch_size": 2} | (depths if "Swin" in name else depths | {"hidden_sizes": [16, 32], "num_stages": 2})
    module = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**sizes))
    results = measured(
        module, list(IMAGES.split(6)), tmp_path, blocks="encoder.layers.*.blocks.*" if "Swin" in name else "encoder.stages.*"
    )
    rows = results.table("mean_norm").query("kind == 'hidden'")
    if "Swin" in name:
        assert rows["d"].tolist() == [16, 16, 16, 32, 32]
        assert "channels" not in results.manifests()[0]["spec"]
    else:
        assert rows["d"].tolist() == [16, 16, 32]
        agrees(results, module, list(module.encoder.stages), IMAGES, "first")


UNKNOWN = r"^The state backbone\.hidden\.0 has the shape \(batch, 6, 6, 6\), and no layer that reads or makes it tells which axis holds "


def test_a_map_that_no_layer_reads_is_refused(tmp_path):
    x = torch.randn(12, 6, 6, 6, generator=torch.Generator().manual_seed(1))
    with pytest.raises(IsoscopeError, match=UNKNOWN + r"the channels; give channels='first' or channels='last'\.$"):
        measured(Scales(), [x], tmp_path / "none")
    with pytest.raises(IsoscopeError, match=r"\(batch, 3, 6, 9\), and no layer"):  # sizes are no evidence
        measured(Scales(), [x.reshape(-1, 3, 6, 9)], tmp_path / "none")
    for channels in ("first", "last"):
        module, y = Scales(), x.reshape(-1, 3, 6, 9)
        results = measured(module, [y], tmp_path / channels, channels=channels)
        agrees(results, module, list(module.layers), y, channels)
        assert set(results.table("mean_norm")["d"]) == {3 if channels == "first" else 9}


def test_layers_that_read_a_map_both_ways_are_refused(tmp_path):
    x = torch.randn(12, SIDE, 4, SIDE, generator=torch.Generator().manual_seed(1))
    with pytest.raises(IsoscopeError, match=r"and the layers that read or make it do not agree on which axis holds the channels; give"):
        measured(mixer(), [x], tmp_path)


def test_a_watched_module(tmp_path):
    torch.manual_seed(0)
    module = Swin()
    with isoscope.watch(module, every=1, data=IMAGES, out=tmp_path / "swin") as w:
        assert w.results().table("mean_norm").query("kind == 'hidden'")["d"].tolist() == [8, 8, 8, 16, 16]
    x = torch.randn(12, 6, 6, 9)
    with (
        pytest.raises(IsoscopeError, match="give channels='first' or channels='last'"),
        isoscope.watch(Scales(), data=x, out=tmp_path / "x", taps="hidden"),
    ):
        pass
    with isoscope.watch(Scales(), data=x, out=tmp_path / "last", channels="last", taps="hidden") as w:
        assert set(w.results().table("mean_norm")["d"]) == {9}


def test_what_channels_takes(tmp_path):
    with pytest.raises(IsoscopeError, match=r"^channels must be first or last; got 'lst', did you mean last\?$"):
        measured(Scales(), [torch.randn(2, 3, 4, 5)], tmp_path, channels="lst")
    with pytest.raises(IsoscopeError, match="channels, name, tokenizer and processor belong to a model in memory"):
        isoscope.measure("a-model", out=tmp_path, channels="last")
    with pytest.raises(IsoscopeError, match=r"^channels belongs to a torch\.nn\.Module"):
        isoscope.sweep("a-suite", out=tmp_path, channels="last")


def test_the_trace_changes_nothing(tmp_path):
    torch.manual_seed(0)
    module = Swin().eval()
    with torch.no_grad():
        before = module(IMAGES)
        measured(module, [IMAGES], tmp_path)
        assert torch.equal(module(IMAGES), before)


@pytest.mark.parametrize("title", [small.title for small in ZOO if small.family in ("convolution", "hierarchical")])
def test_models_by_name_have_channels_first(title, data, tmp_path):
    """What the families take for granted of the maps of their blocks is what the layers of each model say."""
    loaded = load_model(resolve_model(str(build(next(small for small in ZOO if small.title == title), tmp_path / "model"))))
    reader = loaded.family.reader(loaded, None)
    content = next(iter(open_source(data["images"], None, loaded.family.source).items())).content
    fed = reader.feed(reader.chunks(content))
    tap = Tap(loaded.family.stacks(loaded.base), lambda site, state: None, channels=None)
    tap.learn(lambda: loaded.base(**fed.arguments))
    assert {layout for site, layout in tap.layouts.items() if site.kind == "hidden"} <= {"first"}
    maps = {"ResNet": 4, "EfficientNet": 4, "ConvNeXt": 4, "ConvNeXt V2": 4, "VAN": 7}
    assert len(tap.layouts) == maps.get(title, 0)  # all others have states of three axes


def test_a_final_norm_that_reads_a_permuted_map(data, tmp_path):
    """VAN's last norm has channels last, all its blocks have them first."""
    loaded = load_model(resolve_model(str(build(next(small for small in ZOO if small.title == "VAN"), tmp_path / "model"))))
    table = isoscope.measure(str(loaded.reference.folder), data["images"], tmp_path / "run", quiet=True).table("mean_norm")
    last, final = table[table["kind"].isin(["hidden", "final"])].sort_values("layer").iloc[-2:].to_dict("records")
    assert (last["kind"], last["d"], final["kind"], final["d"]) == ("hidden", 16, "final", 16)
    assert last["n"] == final["n"]
    assert final["value"] == pytest.approx(4, abs=0.2)  # a layer norm with weights of one gives the root of 16
