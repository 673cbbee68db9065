"""Statistics on a device: a tapped forward pass asks for no value, launches few operators, and gives the numbers of the compiled path."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers as t
from torch.utils.flop_counter import FlopCounterMode

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.measuring.model_feeder import ModelFeeder
from isoscope.measuring.options import Options
from isoscope.measuring.single_pass import Batch, Pass
from isoscope.models.loading.chunk import Positions
from isoscope.models.naming.model_name import resolve_model
from isoscope.models.tapping import device_memory, device_points, device_rows, torch_functions
from isoscope.models.tapping.attention_tap import AttentionTap
from isoscope.models.tapping.device_rows import RowBank
from isoscope.models.tapping.device_statistics import DeviceStatistics, Origin, full_float32
from isoscope.models.tapping.layout import BatchLayout, Layout, Rows
from isoscope.sources import open_source
from isoscope.statistics.any_statistics import from_state, state_of
from isoscope.statistics.site_statistics import SiteStatistics
from tests.models.tapping.device_passes import MODELS, Plain, WatchOperators, assert_alike, drive, make_model, make_pass
from tests.models.zoo import ZOO, build

ALL = ("hidden", "attention")


def watch(single_pass, monkeypatch):
    """Run two batches, the second of them under a mode that counts what each part launches."""
    devices, mode, states = single_pass.on_device, WatchOperators(), ("hidden", "final")

    def count(name, owner_of):
        function = getattr(devices, name)

        def counted(*given):
            owner = owner_of(*given)
            mode.counts[f"{owner} calls"] += 1
            mode.counts["rows calls"] += name == "reduce_rows"
            with mode.owned(owner):
                return function(*given)

        monkeypatch.setattr(devices, name, counted)

    count(
        "reduce",
        lambda sites, *_: "states" if sites[0].kind in states else f"vectors of {'cross_' * sites[0].kind.startswith('cross')}attention",
    )
    count("reduce_rows", lambda site, *_: f"rows of {site.kind}")
    count("end_batch", lambda: "end")
    if single_pass.attention is not None:
        tap = single_pass.attention.mode
        for name, see in tap._see_attention.items():

            def watched(*args, see=see, **kwargs):
                with mode.owned("tap"):
                    see(*args, **kwargs)

            tap._see_attention[name] = watched
    for kind, name in ((RowBank, "_close"), (AttentionTap, "_causal_mask"), (AttentionTap, "_split_mask")):
        close = getattr(kind, name)

        def of_masks(*given, close=close):
            mode.counts["masks calls"] += 1
            with mode.owned("masks"):
                return close(*given)

        monkeypatch.setattr(kind, name, of_masks)
    single_pass.reduce(single_pass.feeder.batch(0))
    mode.counts.clear()
    mode.names.clear()
    with mode:
        single_pass.reduce(single_pass.feeder.batch(1))
    return mode


@pytest.mark.parametrize("name", MODELS)
def test_a_tapped_pass_asks_for_no_value(name, monkeypatch):
    """On the meta device tensors have no values: `.item()`, `bool()`, `.cpu()` and boolean indexing raise an error there."""
    single_pass = make_pass(name, make_model(name, "meta"), taps=ALL)
    mode = watch(single_pass, monkeypatch)
    counts = mode.counts
    states = counts["states"] / counts["states calls"]
    by_kind = {
        kind: (counts[f"rows of {kind}"] + counts[f"vectors of {kind}"]) / calls + counts["tap"] / counts["rows calls"]
        for kind in ("attention", "cross_attention")
        if (calls := counts[f"rows of {kind} calls"])
    }
    of_heads = ", ".join(f"{count:.1f} per {kind}" for kind, count in by_kind.items())
    print(
        f"\n{name}: {states:.1f} operators per hidden site, {of_heads}; per batch, for all layers together, {counts['end']} at its ", end=""
    )
    print(f"end, {counts['masks']} for {counts['masks calls']} masks and {counts['transfers']} transfers to the device")
    assert states <= 10
    assert by_kind["attention"] <= 27
    assert by_kind.get("cross_attention", 0) <= 36  # queries and keys have positions of their own, so they are not reduced together
    with pytest.raises(NotImplementedError):
        single_pass.collect()


def measure(name, dtype, monkeypatch, *, on_device, **options):
    """The statistics of three batches, reduced by compiled code or with tensors."""
    with monkeypatch.context() as patch:
        if on_device:
            patch.setattr(torch_functions, "HOST_DEVICES", ())
        single_pass = make_pass(name, make_model(name, dtype=dtype), **options)
        for window in single_pass.feeder.windows():
            for batch in window:
                single_pass.reduce(batch)
        return single_pass.finish()


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_those_of_the_compiled_path(name, monkeypatch):
    expected = measure(name, torch.float64, monkeypatch, on_device=False, taps=ALL, after_rotary=True)
    got = measure(name, torch.float64, monkeypatch, on_device=True, taps=ALL, after_rotary=True)
    assert got.keys() == expected.keys()
    for site, statistics in expected.items():
        assert_alike(statistics, got[site], 1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("sums", [torch.float64, torch.float32])
def test_short_types_and_sums_in_pairs_of_float32(dtype, sums, monkeypatch):
    """Models in short types, and devices that have no float64: as the compiled path, to the rounding of float32."""
    expected = measure("bert", dtype, monkeypatch, on_device=False, taps=ALL)
    monkeypatch.setattr(device_memory, "sum_dtype", lambda device: sums)
    got = measure("bert", dtype, monkeypatch, on_device=True, taps=ALL)
    for site, statistics in expected.items():
        assert_alike(statistics, got[site], 2e-6)


@pytest.mark.parametrize("d", [768, 8192])
def test_wide_states_keep_their_digits(d, monkeypatch):
    """bfloat16 points far from the origin: the covariance of some columns agrees with float64; so do means and sums."""
    site, names, b, t = Site("encoder", "hidden", 1), ["special", "first", "body"], 2, 300
    rng = np.random.default_rng(0)
    codes = np.full((b, t), 2, dtype=np.int16)
    codes[:, 0], codes[1, 250:] = 0, -1
    index, item = np.tile(np.arange(t), (b, 1)), np.arange(b, dtype=np.uint64)
    hashes = rng.integers(0, 2**63, (b, t)).astype(np.uint64)
    layout = Layout(codes, None, hashes, index, item, item.astype(np.int64), np.arange(b), np.ones(b, dtype=bool))
    empty, devices = SiteStatistics(d, names, second=d < 8192, sample=8), DeviceStatistics()
    devices.add(site, Origin(torch.device("cpu"), torch.bfloat16, (b, t), on_host=False), empty)
    devices.allocate()
    seen = []
    for number in range(3):
        x = torch.as_tensor(rng.standard_normal((b, t, d)) + 30 + number, dtype=torch.bfloat16)
        x[1, 250:] = torch.nan
        devices.reduce([site], [x[:, None]], layout)
        devices.end_batch()
        seen.append(x[torch.as_tensor(codes == 2)].double())
    points, body = torch.cat(seen), devices.collect({site: empty}, "made")[site].moments[2]
    assert body.n == len(points)
    np.testing.assert_allclose(body.total, points.sum(0), rtol=3e-7)
    np.testing.assert_allclose(body.directions, (points / points.norm(dim=1, keepdim=True)).sum(0), rtol=1e-6)
    np.testing.assert_allclose(body.squared, (points / points.norm(dim=1, keepdim=True)).square().sum(0), rtol=1e-6)
    np.testing.assert_allclose(body.norm2, points.square().sum(), rtol=1e-12)
    if body.second is not None:
        np.testing.assert_allclose(body.second.covariance[:, :9], torch.cov(points.T)[:, :9], atol=1e-5)


def test_nan_is_reported_with_its_site_when_statistics_come_to_the_host(monkeypatch):
    monkeypatch.setattr(torch_functions, "HOST_DEVICES", ())
    model = make_model("bert")
    single_pass = make_pass("bert", model)
    with torch.no_grad():
        model.encoder.layer[0].output.LayerNorm.bias[3] = torch.nan
    single_pass.reduce(single_pass.feeder.batch(0))
    with pytest.raises(IsoscopeError, match=r"bert gives NaN or infinity at encoder\.hidden\.1: 3 special vectors\. Nothing was averaged"):
        single_pass.collect()


def test_nan_in_rows_of_attention_is_counted(monkeypatch):
    monkeypatch.setattr(torch_functions, "HOST_DEVICES", ())
    single_pass = make_pass("bert", make_model("bert"), taps=("attention",), layers="1")
    attention = single_pass.attention
    receive = attention.mode.receive
    attention.mode.receive = lambda call: receive(replace(call, query=call.query.clone().index_fill_(2, torch.tensor([3]), torch.nan)))
    single_pass.reduce(single_pass.feeder.batch(0))
    with pytest.raises(IsoscopeError, match=r"encoder\.attention\.1: 12 rows of attention"):  # 3 sequences × 4 heads
        single_pass.collect()


def test_padding_of_attention_reaches_nothing(monkeypatch):
    """Whatever queries and keys of padding hold, if the mask closes them the statistics are the same to the last bit."""
    monkeypatch.setattr(torch_functions, "HOST_DEVICES", ())
    collected = []
    for filler in (0.0, 5.0, torch.nan):
        single_pass = make_pass("bert", make_model("bert"), taps=("attention",))
        attention = single_pass.attention
        mask = torch.ones(3, 1, 1, 40, dtype=torch.bool)
        mask[1, ..., 27:] = False

        def receive(call, given=attention.mode.receive, filler=filler, mask=mask):
            query, key = call.query.clone(), call.key.clone()
            query[1, :, 27:] = key[1, :, 27:] = filler
            given(replace(call, query=query, key=key, plain_query=query, plain_key=key, mask=mask))

        attention.mode.receive = receive
        single_pass.reduce(single_pass.feeder.batch(0))
        collected.append(single_pass.collect())
    for other in collected[1:]:
        for site, statistics in collected[0].items():
            assert_alike(statistics, other[site], 0.0)


def test_everything_comes_to_the_host_in_one_transfer(monkeypatch):
    monkeypatch.setattr(torch_functions, "HOST_DEVICES", ())
    single_pass = make_pass("bert", make_model("bert"), taps=ALL)
    moved, cpu = [], torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: moved.append(tensor.nbytes) or cpu(tensor))
    single_pass.reduce(single_pass.feeder.batch(0))
    assert moved == []
    collected = single_pass.collect()
    assert len(moved) == 1
    assert moved[0] > sum(array.nbytes for statistics in collected.values() for array in state_of(statistics).values()) / 2


def test_a_saved_state_continues(monkeypatch):
    """Two batches, a state on disk, and a third batch in another pass: the numbers of three batches in one."""
    monkeypatch.setattr(torch_functions, "HOST_DEVICES", ())
    model = make_model("llama", dtype=torch.float64)
    whole, first, second = (make_pass("llama", model, taps=ALL) for _ in range(3))
    for single_pass, numbers in ((whole, (0, 1, 2)), (first, (0, 1))):
        for number in numbers:
            single_pass.reduce(single_pass.feeder.batch(number, closes=number != 0))
    second.statistics.update({site: from_state(site.kind, state_of(part)) for site, part in first.collect().items()})
    second.reduce(second.feeder.batch(2))
    got = second.finish()
    for site, statistics in whole.finish().items():
        assert_alike(statistics, got[site], 1e-12)


@pytest.mark.parametrize("options", [{}, {"query_rows": 5}])
@pytest.mark.parametrize("scores", [1, 4 * 40 * 7, 4 * 40 * 40 * 2])
def test_blocks_of_scores_change_nothing(options, scores, monkeypatch):
    """However many scores are reduced at a time: one row, seven rows, or two of three sequences."""
    expected = measure("llama", torch.float64, monkeypatch, on_device=False, taps=("attention",), **options)
    monkeypatch.setattr(device_rows, "SCORES", scores)
    got = measure("llama", torch.float64, monkeypatch, on_device=True, taps=("attention",), **options)
    for site, statistics in expected.items():
        assert_alike(statistics, got[site], 1e-9)


def test_layers_may_differ_in_their_heads(monkeypatch):
    """What a mask closes is computed once for all layers that share it, but not for other numbers of heads."""

    class Uneven(Plain):
        def __init__(self):
            super().__init__()
            self.layers[1] = torch.nn.TransformerEncoderLayer(32, 8, 64, batch_first=True)

    monkeypatch.setitem(MODELS, "uneven", (Uneven, [""], drive))
    expected = measure("uneven", torch.float64, monkeypatch, on_device=False, taps=ALL)
    got = measure("uneven", torch.float64, monkeypatch, on_device=True, taps=ALL)
    assert [statistics.h for site, statistics in got.items() if site.kind == "attention"] == [4, 8]
    for site, statistics in expected.items():
        assert_alike(statistics, got[site], 1e-9)


def test_a_finished_pass_holds_no_memory_on_a_device(monkeypatch):
    monkeypatch.setattr(torch_functions, "HOST_DEVICES", ())
    single_pass = make_pass("bert", make_model("bert"), taps=ALL)
    single_pass.reduce(single_pass.feeder.batch(0))
    memory = weakref.ref(next(iter(single_pass.on_device._memories.values())))
    assert memory() is not None
    single_pass.finish()
    gc.collect()
    assert memory() is None


def test_states_within_blocks(monkeypatch):
    """Hooks within a block run under the attention tap, which must not take their operations for the model's."""
    expected = measure("llama", torch.float64, monkeypatch, on_device=False, taps=ALL, inner=True, second_moments="all")
    got = measure("llama", torch.float64, monkeypatch, on_device=True, taps=ALL, inner=True, second_moments="all")
    assert {"before_norm", "after_norm", "after_activation"} <= {site.kind for site in got}
    for site, statistics in expected.items():
        assert_alike(statistics, got[site], 1e-9)


def test_sums_that_are_added_at_once_are_those_that_wait(monkeypatch):
    """Large states are added to the sums in their hooks, small ones after the forward pass."""
    expected = measure("llama", torch.float64, monkeypatch, on_device=False, taps=ALL)
    monkeypatch.setattr(device_points, "WAITING", 15_000)
    monkeypatch.setattr(device_rows, "WAITING", 1)
    got = measure("llama", torch.float64, monkeypatch, on_device=True, taps=ALL)
    for site, statistics in expected.items():
        assert_alike(statistics, got[site], 1e-9)


def test_attention_that_needs_values_on_the_way_is_copied_to_the_host(monkeypatch):
    """Medians, ablated queries, sinks and cosines' spread: the same numbers, from states that are moved."""
    options = {"taps": ALL, "attention_median": True, "ablate_queries": True, "cosine_sd": True}
    expected = measure("bert", torch.float32, monkeypatch, on_device=False, **options)
    got = measure("bert", torch.float32, monkeypatch, on_device=True, **options)
    for site, statistics in expected.items():
        assert_alike(statistics, got[site], 1e-6)


def test_products_are_taken_in_full_float32():
    torch.set_float32_matmul_precision("medium")
    try:
        with full_float32():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_operations_beyond_the_forward_pass():
    """BERT-base over 8 × 512 tokens, counted without a value: hidden states with second moments add less than 6 % of its operations."""
    with torch.device("meta"):
        model = t.BertModel(t.BertConfig(), add_pooling_layer=False).eval()
    single_pass = make_pass("bert", model, second_moments="all")
    run = lambda: model(input_ids=torch.zeros(8, 512, dtype=torch.long, device="meta"))  # noqa: E731
    rows = Rows.of(list(range(8)), list(range(8)), np.ones(8, dtype=bool))
    special = np.isin(np.arange(512), [0, 511])
    batch = Batch(run, run, BatchLayout(single_pass.feeder.slicer, 0, lambda b: rows, lambda stack, b, t: [Positions(special)] * b))
    single_pass.reduce(batch)
    with FlopCounterMode(display=False) as plain:
        run()
    with FlopCounterMode(display=False) as tapped:
        single_pass.reduce(batch)
    share = tapped.get_total_flops() / plain.get_total_flops() - 1
    mode = WatchOperators()
    reduce = single_pass.on_device.reduce

    def counted(*given):
        with mode.owned("state"):
            reduce(*given)

    single_pass.on_device.reduce = counted
    with mode:
        single_pass.reduce(batch)
    print(f"\noperations {share:.2%}, operators per hidden site {mode.counts['state'] / 13:.1f}, {mode.counts['model'] - 0} others")
    print(f"bytes {mode.bytes['state'] / mode.bytes['model']:.1%} of the model and the end of the batch")
    assert 0.04 < share < 0.06
    assert mode.counts["state"] <= 12 * 13


@pytest.mark.parametrize("title", ["ModernBERT", "DeBERTa-v2", "Qwen3"])
def test_a_model_by_name_in_batches_of_several_lengths(title, texts, tmp_path, monkeypatch):
    """Items that lie in several batches, windows of attention, and a first pass of another size than all others."""
    folder, measured = str(build(next(small for small in ZOO if small.title == title), tmp_path / "small")), []
    for devices in (torch_functions.HOST_DEVICES, ()):
        monkeypatch.setattr(torch_functions, "HOST_DEVICES", devices)
        options = Options(batch_size=2, sample=50, taps=ALL, seq_len=48)
        feeder = ModelFeeder(resolve_model(folder), open_source(str(texts)), options)
        feeder.model.base.double()
        single_pass = Pass(feeder, options)
        single_pass.learn(feeder.probe())
        for window in feeder.windows():
            for batch in window:
                single_pass.reduce(batch)
        measured.append(single_pass.finish())
    for site, statistics in measured[0].items():
        assert_alike(statistics, measured[1][site], 1e-9)
