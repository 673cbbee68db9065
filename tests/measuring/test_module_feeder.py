"""Any module with its batches: the numbers of its own states, whatever stands in the way, and one sentence where it cannot be done."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import isoscope
from isoscope.core.errors import IsoscopeError
from tests.models.brute_layers import brute

D = 8
NUMBERS = ("mean_cosine", "between_cosine", "mean_norm", "drift_norm", "top_share", "effective_rank")


class Block(nn.Module):
    """A residual block, one that changes its input where asked to."""

    def __init__(self, d, *, inplace=False):
        super().__init__()
        self.linear, self.relu, self.inplace = nn.Linear(d, d), nn.ReLU(inplace=inplace), inplace

    def forward(self, x):
        change = self.relu(self.linear(x))
        if self.inplace:
            x += change
            return x
        return x + change


class Plain(nn.Module):
    def __init__(self, d=D, *, inplace=False):
        super().__init__()
        torch.manual_seed(0)
        self.layers, self.norm = nn.ModuleList(Block(d, inplace=inplace) for _ in range(3)), nn.LayerNorm(d)

    def forward(self, x, attention_mask=None):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def rows(count=40, t=5, d=D):
    return torch.randn(count, t, d, generator=torch.Generator().manual_seed(1))


def measure(module, batches, folder, **options):
    return isoscope.measure(module, batches, folder, quiet=True, **({"sample": 64} | options)).table(policy="every")


def states(module, x):
    """Every state of a module like Plain, in float64 and by hand."""
    found = [x.double().numpy()]
    with torch.inference_mode():
        x = x.clone()
        for layer in module.layers:
            x = layer(x)
            found.append(x.double().numpy().copy())
    return found


def agrees(table, found, keep=None, policy="all"):
    """The table's hidden layers against states (rows, t, d), at the positions that `keep` (rows, t) chooses."""
    keep = np.ones(found[0].shape[:2], bool) if keep is None else np.asarray(keep)
    owner = np.repeat(np.arange(len(keep))[:, None], keep.shape[1], 1)[keep]
    hidden = table[(table["kind"] == "hidden") & (table["policy"] == policy)].dropna(subset=["layer"])
    assert sorted(set(hidden["layer"])) == list(range(len(found)))
    for layer, state in enumerate(found):
        mine, expected = hidden[hidden["layer"] == layer].set_index("metric"), brute(state[keep], owner)
        assert mine.loc["mean_norm", "n"] == keep.sum()
        for name in NUMBERS:
            assert mine.loc[name, "value"] == pytest.approx(expected[name], rel=1e-5, abs=1e-5), (layer, name)


def refused(module, batches, folder, *pieces, **options):
    with pytest.raises(IsoscopeError) as error:
        measure(module, batches, folder, **options)
    said = str(error.value)
    assert "\n" not in said
    assert said.endswith((".", "…."))
    for piece in pieces:
        assert piece in said, said


def test_a_module_of_ones_own(tmp_path):
    module, x = Plain(), rows()
    table = measure(module, list(x.split(7)), tmp_path)
    agrees(table, states(module, x))
    first = np.arange(5)[None] == np.zeros((40, 1))
    agrees(table, states(module, x), ~first, policy="body")
    assert set(table["model"]) == {"Plain"}
    assert (table["kind"] == "final").any()


@pytest.mark.parametrize(
    "batches",
    [
        lambda x: (batch for batch in x.split(7)),
        lambda x: DataLoader(TensorDataset(x), batch_size=9),
        lambda x: [(batch,) for batch in x.split(40)],
        lambda x: [{"x": batch} for batch in x.split(1)],
    ],
)
def test_batches_of_any_kind_give_the_same(tmp_path, batches):
    agrees(measure(Plain(), batches(rows()), tmp_path), states(Plain(), rows()))


@pytest.mark.parametrize("d", [D, 300])  # above 256 points are not copied to float64
def test_a_module_that_changes_its_input(tmp_path, d):
    x = rows(d=d)
    table = measure(Plain(d, inplace=True), [batch.clone() for batch in x.split(7)], tmp_path)
    agrees(table, states(Plain(d), x))


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(tmp_path, side):
    """Rows of 3 to 5 positions, padded with what would show."""
    x, lengths = rows(), torch.arange(40) % 3 + 3
    at = torch.arange(7)
    keep = at < lengths[:, None] if side == "right" else at >= 7 - lengths[:, None]
    alone = measure(Plain(), [row[None, :n] for row, n in zip(x, lengths, strict=True)], tmp_path / "alone", name="alone")
    padded = torch.full((40, 7, D), 1e3)
    padded[keep] = torch.cat([row[:n] for row, n in zip(x, lengths, strict=True)])
    batches = [{"x": batch, "attention_mask": mask} for batch, mask in zip(padded.split(7), keep.long().split(7), strict=True)]
    table = measure(Plain(), batches, tmp_path / "padded", name="alone")
    agrees(table, states(Plain(), padded), keep)
    columns = ["kind", "layer", "policy", "metric"]
    both = table.merge(alone, on=columns, suffixes=("", "_alone"))
    assert len(both) == len(table) == len(alone)
    np.testing.assert_allclose(both["value"], both["value_alone"], rtol=1e-4, atol=1e-6)  # those read off the sample too
    np.testing.assert_array_equal(both["n"], both["n_alone"])


def encoder(*, batch_first=True):
    torch.manual_seed(0)
    made = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 16, batch_first=batch_first), 3, enable_nested_tensor=batch_first)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return made


def encoder_states(module, x, mask):
    """Without the fast path, on one row at a time, so that there is no padding."""
    found = [np.zeros((*x.shape[:2], D)) for _ in range(4)]
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.inference_mode():
            for i, (row, padding) in enumerate(zip(x, mask, strict=True)):
                state = row[~padding][None]
                found[0][i, ~padding] = state[0]
                for layer, block in enumerate(module.layers):
                    state = block(state)
                    found[layer + 1][i, ~padding] = state[0]
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)
    return found


@pytest.mark.parametrize("kind", [dict, tuple])
@pytest.mark.parametrize("additive", [False, True])
def test_torch_s_own_encoder_and_its_padding(tmp_path, kind, additive):
    """Its fast path packs padded batches; with hooks on the layers that ends in an error or in padding that counts."""
    module, x = encoder().eval(), rows()
    mask = torch.arange(5) >= (torch.arange(40) % 3 + 3)[:, None]
    given = torch.zeros(40, 5).masked_fill(mask, -torch.inf) if additive else mask
    batches = [
        (a, None, m) if kind is tuple else {"src": a, "src_key_padding_mask": m} for a, m in zip(x.split(7), given.split(7), strict=True)
    ]
    agrees(measure(module, batches, tmp_path), encoder_states(module, x, mask), ~mask)
    assert torch.backends.mha.get_fastpath_enabled()


def test_torch_s_own_encoder_computes_tapped_what_it_computes_untapped(tmp_path):
    module, x, seen = encoder().eval(), rows(), []
    measure(module, [x], tmp_path, feed=lambda module, batch: seen.append(module(batch)))
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.inference_mode():
            assert torch.equal(seen[-1], module(x))
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_positions_before_rows_are_refused(tmp_path):
    refused(encoder(batch_first=False), [rows()], tmp_path, "TransformerEncoder takes positions before rows", "batch_first=True")


def test_a_compiled_module(tmp_path):
    compiled = torch.compile(Plain(), backend="eager")
    with torch.inference_mode():
        compiled(rows()[:7])  # it has been compiled, without hooks
    table = measure(compiled, list(rows().split(7)), tmp_path)
    agrees(table, states(Plain(), rows()))
    assert set(table["model"]) == {"Plain"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(tmp_path, dtype):
    module, x = Plain().to(dtype), rows().to(dtype)
    agrees(measure(module, list(x.split(7)), tmp_path), states(module, x))


def test_vectors_and_maps_have_no_first_position(tmp_path):
    table = measure(Plain(), [rows(t=1)[:, 0]], tmp_path / "vectors")
    assert table.query("kind == 'hidden' and metric == 'mean_norm' and policy == 'body'")["n"].tolist() == [40] * 4
    maps = nn.Sequential(*(nn.Conv2d(3, 3, 3, padding=1) for _ in range(3)))
    table = measure(maps, [torch.randn(4, 3, 6, 6)] * 2, tmp_path / "maps")
    assert table.query("kind == 'hidden' and metric == 'mean_norm' and policy == 'body'")["n"].tolist() == [8 * 36] * 4


def test_everything_is_as_it_was_afterwards(tmp_path):
    module = Plain().train()
    module.layers[1].eval()
    modes = [part.training for part in module.modules()]
    measure(module, [rows()], tmp_path / "good")
    refused(module, [rows(), rows() * float("nan")], tmp_path / "bad", "NaN or infinity at backbone.hidden.0")
    assert [part.training for part in module.modules()] == modes
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    assert torch.backends.mha.get_fastpath_enabled()
    assert not (tmp_path / "bad").exists()


def test_what_is_measured_again_takes_the_place_of_what_was(tmp_path):
    """Code and `feed` are not part of what a cell is known by, so an older answer may be another one."""
    ways = {"plain": lambda module, batch: module(batch), "doubled": lambda module, batch: module(2 * batch)}
    for feed in ways.values():
        table = measure(Plain(), [rows()], tmp_path, feed=feed)
    agrees(table, states(Plain(), 2 * rows()))
    both = measure(Plain(), [rows()], tmp_path, name="other")
    assert set(both["model"]) == {"Plain", "other"}


def test_other_words_are_other_batches(tmp_path):
    def feed(module, words):
        return module(torch.stack([torch.full((3, D), float(len(word))) + torch.arange(D) for word in words]))

    norms = {}
    for words in (["a", "bcd"], ["abcdef", "g"]):
        table = measure(Plain(), [words], tmp_path, feed=feed)
        norms[words[0]] = table.query("metric == 'mean_norm' and policy == 'all' and layer == 0")["value"].tolist()
    assert len(norms["abcdef"]) == 2  # two cells


class Never(Plain):
    def forward(self, x):
        return x


class Sometimes(Plain):
    def forward(self, x):
        for layer in self.layers[: 2 if len(x) == 7 else 3]:
            x = layer(x)
        return x


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(D, D) for _ in range(2))

    def forward(self, x):
        return self.layers[1](self.layers[0](x))


@pytest.mark.parametrize(
    ("module", "batches", "pieces"),
    [
        (Plain, list, ("There was no batch",)),
        (Plain, lambda: iter([]), ("There was no batch",)),
        (Plain, lambda: ["words", "words"], ("must hold a tensor; got str", "feed=")),
        (Plain, lambda: [rows().numpy()], ("must hold a tensor; got ndarray",)),
        (Plain, lambda: "words", ("iterable of batches", "got str")),
        (Plain, lambda: None, ("iterable of batches", "got NoneType")),
        (Plain, rows, ("got one Tensor, which goes into a list",)),
        (Plain, lambda: {"x": rows()}, ("got one dict, which goes into a list",)),
        (Two, lambda: [(rows(), torch.zeros(40))], ("Two cannot be called with a batch as it is", "feed=")),
        (Two, lambda: [{"y": rows()}], ("Two cannot be called with a batch as it is", "'x'")),
        (Plain, lambda: [torch.zeros(0, 5, D)], ("received no points",)),
        (lambda: nn.Linear(D, D), lambda: [rows()], ("No repeated blocks", "blocks='layers.*'")),
        (Never, lambda: [rows()], ("its blocks are not called",)),
        (Sometimes, lambda: [rows()[:9], rows()[:7]], ("called 3 times in the first batch and 2 times in a later one",)),
        (Plain, lambda: [rows() * float("inf")], ("NaN or infinity at backbone.hidden.0",)),
        (Plain, lambda: [{"x": rows(), "attention_mask": torch.eye(40)[:, :3]}], ("mask of a batch is 40 × 3", "40 rows × 5 positions")),
        (Plain, lambda: [{"x": rows(), "attention_mask": torch.zeros(40, 5)}], ("attention_mask of a batch leaves no position",)),
    ],
)
def test_what_cannot_be_measured_is_said_in_a_sentence(tmp_path, module, batches, pieces):
    refused(module(), batches(), tmp_path, *pieces)


@pytest.mark.parametrize(
    "option", [{"max_items": 3}, {"shard": "1/2"}, {"dtype": "bfloat16"}, {"split_body": ("position",)}, {"seq_len": 4}]
)
def test_options_that_would_be_ignored_are_refused(tmp_path, option):
    refused(Plain(), [rows()], tmp_path, next(iter(option)), "does not apply to a module", **option)


def test_an_error_of_the_module_itself_is_the_users_to_see(tmp_path):
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        measure(Plain(), [rows(d=7)], tmp_path)
