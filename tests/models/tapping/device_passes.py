"""Small models of every kind that run on any device, and a mode that watches the operators of a tapped forward pass."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import transformers as t
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from isoscope.measuring.options import Options
from isoscope.measuring.single_pass import Batch, Feeder, Pass
from isoscope.models.loading.chunk import Positions
from isoscope.models.loading.family import Stack
from isoscope.models.tapping.layout import BatchLayout, Rows, Slicer
from isoscope.statistics.any_statistics import AnyStatistics, state_of
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.site_statistics import SiteStatistics

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
B, T = 3, 40
Run = Callable[[nn.Module, torch.device], object]


def ids(device: torch.device) -> Tensor:
    return (torch.arange(B * T).view(B, T) * 7 % 90).to(device)


def waves(module: nn.Module, device: torch.device, *shape: int) -> Tensor:
    """Numbers that a model may take for pixels, sound or states, in its own type."""
    numbers = torch.sin(torch.arange(math.prod(shape)) / 5.3).view(shape)
    return numbers.to(next(module.parameters()).dtype).to(device)


def encode(module: nn.Module, device: torch.device) -> object:
    return module(input_ids=ids(device))


def both(module: nn.Module, device: torch.device) -> object:
    return module(input_ids=ids(device), decoder_input_ids=ids(device)[:, :12])


def see(size: int) -> Run:
    return lambda module, device: module(pixel_values=waves(module, device, B, 3, size, size))


def hear(module: nn.Module, device: torch.device) -> object:
    return module(waves(module, device, B, 4000))


def listen(module: nn.Module, device: torch.device) -> object:
    return module(input_features=waves(module, device, B, 8, 64), decoder_input_ids=ids(device)[:, :12])


class Plain(nn.Module):
    """Blocks of PyTorch's own attention."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def drive(module: nn.Module, device: torch.device) -> object:
    return module(waves(module, device, B, T, 32))


WHISPER = {"num_mel_bins": 8, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "vocab_size": 100}
WHISPER |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 32, "pad_token_id": 0}
WAVE = {"conv_dim": (32, 32), "conv_stride": (10, 5), "conv_kernel": (10, 5), "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 100}
MODELS: dict[str, Any] = {
    "bert": (lambda: t.BertModel(t.BertConfig(vocab_size=100, **SMALL)), [""], encode),
    "gpt2": (lambda: t.GPT2Model(t.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4)), [""], encode),
    "llama": (lambda: t.LlamaModel(t.LlamaConfig(vocab_size=100, num_key_value_heads=2, **SMALL)), [""], encode),
    "t5": (lambda: t.T5Model(t.T5Config(**T5)), ["encoder", "decoder"], both),
    "vit": (lambda: t.ViTModel(t.ViTConfig(image_size=32, patch_size=8, **SMALL)), [""], see(32)),
    "swin": (
        lambda: t.SwinModel(t.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)),
        [""],
        see(32),
        "encoder.layers.*.blocks.*",
    ),
    "wav2vec2": (lambda: t.Wav2Vec2Model(t.Wav2Vec2Config(**SMALL, **WAVE)), ["encoder"], hear),
    "whisper": (lambda: t.WhisperModel(t.WhisperConfig(**WHISPER)), ["encoder", "decoder"], listen),
    "plain": (Plain, [""], drive),
}
"""How each model is made, its stacks, and how it is run."""


def make_model(name: str, device: str = "cpu", dtype: torch.dtype = torch.float32) -> nn.Module:
    """A model of this name, on a device, with the same weights each time."""
    torch.manual_seed(0)
    return MODELS[name][0]().eval().to(dtype).to(device)


class ModelOnDevice(Feeder):
    """Feeds a model with inputs that lie where it does. The last third of the second row of every state is padding."""

    unit = counted_unit = "batches"

    def __init__(self, name: str, module: nn.Module, batches: int = 3) -> None:
        self.name, self.module, self.batches = name, module, batches
        parts = {part or "encoder": module.get_submodule(part) for part in MODELS[name][1]}
        self.stacks = {part: Stack(stack, *MODELS[name][3:]) for part, stack in parts.items()}
        self.slicer, self.channels, self.has_maps = Slicer((), 64), "first", False
        self.device = next(module.parameters()).device

    def run(self) -> None:
        MODELS[self.name][2](self.module, self.device)

    def batch(self, number: int, *, closes: bool = False) -> Batch:
        """Batch `number`. One item has a part in each, up to the last or to one that `closes` it."""
        items = [10 * number + i for i in range(B)]
        rows = Rows.of(
            items, [item if i else 77 for i, item in enumerate(items)], np.array([closes or number == self.batches - 1, True, True])
        )

        def positions(stack: str, b: int, t: int) -> list[Positions]:
            special = np.arange(t) == t // 2
            return [Positions(special[: t - t // 3 if i == 1 else t]) for i in range(b)]

        return Batch(self.run, self.run, BatchLayout(self.slicer, 0, lambda b: rows, positions))

    def windows(self) -> Iterator[Iterable[Batch]]:
        for number in range(self.batches):
            yield (self.batch(number),)

    def calibration_batches(self, first: Batch) -> Iterable[Batch]:
        return (first,)

    def progress(self) -> tuple[int, int]:
        return 0, 0

    def total(self) -> int:
        return self.batches

    def check_not_empty(self) -> None:
        """A model always gives something."""


def make_pass(name: str, module: nn.Module, *, inner: bool = False, **options: object) -> Pass:
    """A pass over a model that knows its sites; with `inner`, states within blocks are sites too."""
    feeder = ModelOnDevice(name, module)
    feeder.inner = inner
    single_pass = Pass(feeder, Options(**({"sample": 32} | options)))
    single_pass.learn(feeder.run)
    return single_pass


def assert_alike(one: AnyStatistics, other: AnyStatistics, tolerance: float) -> None:
    """Both hold the same numbers, within this part of the largest of each kind; covariances and means stand for second moments."""
    if isinstance(one, Heads) and isinstance(other, Heads):
        for a, b in zip(one.split(), other.split(), strict=True):
            assert_alike(a, b, tolerance)
        return
    first, second = describe(one), describe(other)
    assert first.keys() == second.keys()
    for name, array in first.items():
        if name == "histogram":  # the host takes these scores in float32: one that lies on an edge may be counted on either side
            assert np.abs(np.cumsum(array, 1) - np.cumsum(second[name], 1)).max() <= 1
            np.testing.assert_array_equal(array.sum(1), second[name].sum(1))
            continue
        scale = np.abs(array).max(initial=1e-300)
        if name.endswith("covariance"):  # points that are all equal have none, but for rounding
            scale = max(scale, np.square(first[name.replace("covariance", "mean")]).max())
        np.testing.assert_allclose(second[name] / scale, array / scale, rtol=0, atol=tolerance, err_msg=name)


def describe(statistics: AnyStatistics) -> dict[str, np.ndarray]:
    """The arrays of statistics by name."""
    arrays = {name: array.astype(np.float64) for name, array in state_of(statistics).items() if ".second." not in name}
    if isinstance(statistics, SiteStatistics):
        for name, moments in zip(statistics.names, statistics.moments, strict=True):
            if moments.second is not None and moments.second.n:
                arrays |= {f"{name} covariance": moments.second.covariance, f"{name} mean": moments.second.mean}
                arrays |= {f"{name} n": np.array([moments.second.n])}
    return arrays


NO_KERNEL = ("empty", "empty_strided", "new_empty", "empty_like", "detach", "lift_fresh", "_unsafe_view", "_reshape_alias")


class WatchOperators(TorchDispatchMode):
    """Counts operators by who calls them, and refuses one that takes tensors from two devices, unless all but one are numbers.

    Views launch nothing on a device, nor does taking memory, so they are not counted. A copy between devices is a transfer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.names: dict[str, Counter[str]] = {}
        self.bytes: Counter[str] = Counter()
        self.owner = "model"

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        with self:  # in inference mode an operator that is made of others arrives whole
            output = func.decompose(*args, **(kwargs or {}))
        if output is not NotImplemented:
            return output
        output = func(*args, **(kwargs or {}))
        given = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, Tensor)]
        made = [value for value in tree_flatten(output)[0] if isinstance(value, Tensor)]
        name = func._schema.name.removeprefix("aten::")
        devices = {value.device.type for value in (*given, *made) if value.dim()}
        if name in ("_to_copy", "copy_") and len(devices) > 1:
            self.counts["transfers"] += 1
            return output
        assert len(devices) < 2, f"{name} takes tensors from {' and '.join(sorted(devices))}"
        is_view = any(alias.alias_info is not None and not alias.alias_info.is_write for alias in func._schema.arguments)
        if devices and not is_view and name not in NO_KERNEL:
            self.counts[self.owner] += 1
            self.names.setdefault(self.owner, Counter())[name] += 1
            self.bytes[self.owner] += sum(value.numel() * value.itemsize for value in (*given, *made))
        return output

    @contextmanager
    def owned(self, owner: str) -> Iterator[None]:
        """Count what runs in this context for an owner."""
        before, self.owner = self.owner, owner
        try:
            yield
        finally:
            self.owner = before
