"""Runs with attention tapped: what the table says is what the model's own attention says, however it was batched, cut or resumed."""

import json

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.measuring.attention_sites import size_of
from isoscope.models.loading.family import families
from isoscope.models.loading.load import load_model
from isoscope.models.naming.model_name import resolve_model
from isoscope.models.tapping.layout import Layout
from isoscope.sources import open_source
from isoscope.statistics.any_statistics import state_of
from isoscope.statistics.attention_statistics import AttentionStatistics
from isoscope.statistics.head_statistics import Heads
from isoscope.training.threads import limit_threads
from tests.models.zoo import ZOO, build

BY_TITLE = {small.title: small for small in ZOO}
MODALITY = {family.name: family.source for family in families}
BOTH = "hidden,attention"
WITHOUT_ATTENTION = tuple(title for family in families for title in family.without_attention)


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    made = {}

    def make(title):
        if title not in made:
            made[title] = str(build(BY_TITLE[title], tmp_path_factory.mktemp("zoo") / f"small-{len(made)}"))
        return made[title]

    return make


def measured(model, source, folder, **options):
    given = {"quiet": True, "batch_size": 3, "seq_len": 32, "taps": BOTH} | options
    return isoscope.measure(model, source, folder, **given)


def values(table, kind, metric, policy="all", layer=None):
    rows = table.query("kind == @kind and metric == @metric and policy == @policy and head.notna()")
    rows = rows if layer is None else rows[rows["layer"] == layer]
    return rows.sort_values(["stack", "layer", "head"])["value"].to_numpy()


ATTENDING = [small for small in ZOO if small.title not in WITHOUT_ATTENTION]
FIRSTS = {small.family: small.title for small in reversed(ATTENDING)}
"""One architecture a family; the others are slow."""


@pytest.mark.parametrize(
    "title", [pytest.param(one.title, marks=[] if one.title == FIRSTS[one.family] else pytest.mark.slow) for one in ATTENDING]
)
def test_every_architecture_has_rows_queries_and_keys(title, model_of, data, tmp_path):
    """Every row of attention counts once, whatever the windows, chunks and masks; queries are as many as rows."""
    modality = MODALITY[BY_TITLE[title].family]
    options = {} if modality == "text" else {"seq_len": None}
    table = measured(model_of(title), data[modality], tmp_path, **options).table(policy="every")
    everything = table[table["policy"] == "all"]
    hidden = everything.query("kind == 'hidden' and metric == 'mean_norm'").set_index(["stack", "layer"])["n"]
    for kind, side in (("attention", "query"), ("cross_attention", "cross_query")):
        rows = everything[everything["kind"].eq(kind) & everything["metric"].eq("attention_entropy") & everything["head"].notna()]
        vectors = everything[everything["kind"].eq(side) & everything["metric"].eq("mean_norm")].set_index(["stack", "layer", "head"])["n"]
        assert len(rows) == len(vectors)
        for stack, layer, head, n in rows[["stack", "layer", "head", "n"]].itertuples(index=False):
            assert n == vectors[stack, layer, head] == hidden[stack, layer], (stack, layer, head)
    assert len(everything.query("kind == 'attention'"))
    entropy = everything.query("metric == 'attention_entropy_normalised'")["value"]
    assert entropy.between(0, 1 + 1e-9).all()


@pytest.mark.parametrize("title", ["BERT", "Llama"])
def test_the_table_is_the_models_own_attention(title, model_of, data, tmp_path):
    """Against attention written out by the model itself, one sequence at a time, in float64."""
    from transformers import AutoModel

    folder = model_of(title)
    table = measured(folder, data["text"], tmp_path, attention_median=True).table(policy="every")
    loaded = load_model(resolve_model(folder))
    reader = loaded.family.reader(loaded, 32)
    eager = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    found = {}
    for item in open_source(data["text"], None, "text").items():
        for piece in reader.chunks(item.content):
            with torch.inference_mode():
                attentions = eager(**reader.feed([piece]).arguments, output_attentions=True).attentions
            for layer, p in enumerate(attentions, 1):
                for head, rows in enumerate(p[0].double().numpy()):
                    for i, row in enumerate(rows):
                        seen = row[: i + 1] if title == "Llama" else row
                        found.setdefault((layer, head), []).append(
                            [-(seen * np.log(seen)).sum(), seen.max(), np.median(seen), seen.min(), row[0]]
                        )
    names = ["attention_entropy", "attention_max", "attention_median", "attention_min", "sink_mass"]
    own = table.query("kind == 'attention' and policy == 'all'")
    for (layer, head), rows in found.items():
        at = own[own["layer"].eq(layer) & own["head"].eq(head).fillna(False)].set_index("metric")["value"]
        np.testing.assert_allclose(at[names].to_numpy(float), np.mean(rows, 0), rtol=1e-5, atol=1e-6)


def test_neither_batches_nor_shards_nor_a_break_change_a_number(model_of, data, tmp_path):
    folder = model_of("Llama")
    options = {"ablate_queries": True, "after_rotary": True, "query_rows": 8}
    whole = measured(folder, data["text"], tmp_path / "whole", **options).table(policy="every")
    other = measured(folder, data["text"], tmp_path / "other", **options | {"batch_size": 1}).table(policy="every")
    for i in (1, 2):
        measured(folder, data["text"], tmp_path / f"{i}", shard=f"{i}/2", **options)
    merged = isoscope.merge([tmp_path / "1", tmp_path / "2"], tmp_path / "merged").table(policy="every")
    keys = ["kind", "layer", "head", "policy", "metric"]
    for table in (other, merged):
        both = whole.merge(table, on=keys, suffixes=("", "_other"), how="outer", indicator=True)
        assert (both["_merge"] == "both").all()
        assert (both["n"] == both["n_other"]).all()
        np.testing.assert_allclose(both["value_other"].to_numpy(float), both["value"].to_numpy(float), rtol=2e-5, atol=2e-6)
    assert {"attention_without_mean_query", "attention_without_3_dimensions", "rotated_query"} <= set(whole["kind"])


def test_what_was_saved_half_way_goes_on(model_of, data, tmp_path, monkeypatch):
    from isoscope.measuring.single_pass import Pass

    folder, run = model_of("BERT"), tmp_path / "run"
    whole = measured(folder, data["text"], tmp_path / "whole").table(policy="every")
    plain, seen = Pass.reduce, []

    def breaks(self, batch):
        seen.append(batch)
        if len(seen) == 3:
            raise KeyboardInterrupt
        plain(self, batch)

    monkeypatch.setattr(Pass, "reduce", breaks)
    monkeypatch.setattr("isoscope.measuring.model_feeder.WINDOW_BATCHES", 1)
    with pytest.raises(KeyboardInterrupt):
        measured(folder, data["text"], run, save_every=0.0)
    monkeypatch.undo()
    assert list((run / "partial").iterdir())
    table = measured(folder, data["text"], run).table(policy="every")
    np.testing.assert_allclose(table["value"].to_numpy(float), whole["value"].to_numpy(float), rtol=2e-5, atol=2e-6)


def test_some_rows_stand_for_all(model_of, data, tmp_path):
    folder = model_of("BERT")
    every, some = (
        measured(folder, data["text"], tmp_path / str(rows), query_rows=rows, taps="attention").table("attention_entropy")
        for rows in (None, 8)
    )
    n = [table.query("policy == 'all' and head == 0 and layer == 1")["n"].item() for table in (every, some)]
    assert n[1] < n[0] / 3
    np.testing.assert_allclose(values(some, "attention", "attention_entropy"), values(every, "attention", "attention_entropy"), rtol=0.1)


def test_attention_alone_leaves_hidden_states_out(model_of, data, tmp_path):
    table = measured(model_of("BERT"), data["text"], tmp_path, taps="attention", layers="2").table(policy="every")
    assert set(table["kind"]) == {"attention", "query", "key"}
    assert set(table["layer"]) == {2}


def test_a_plain_module_with_attention(tmp_path):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(3, 7, 16)
    mask = torch.zeros(3, 7, dtype=torch.bool)
    mask[1, 5:] = True
    batches = [{"src": x, "src_key_padding_mask": mask}]
    table = isoscope.measure(model, batches, tmp_path, quiet=True, taps=BOTH).table(policy="every")
    with torch.inference_mode():
        p = model.layers[0].self_attn(x, x, x, key_padding_mask=mask, average_attn_weights=False)[1].double()
    entropy = -(p * p.clamp_min(1e-300).log()).sum(-1).transpose(0, 1)[:, ~mask].mean(1)
    np.testing.assert_allclose(values(table, "attention", "attention_entropy", layer=1), entropy.numpy(), rtol=1e-5)


def test_without_the_mean_query_scores_have_no_part_of_it(tmp_path):
    """Attention of one linear map: the entropy without Q̄ is that of a softmax over the centred queries."""

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

        def forward(self, x):
            return x + torch.softmax(self.q(x) @ self.k(x).mT / 8**0.5, -1) @ x

    torch.manual_seed(1)
    model = torch.nn.Sequential(*(Layer() for _ in range(2))).eval()
    x = 3 * torch.randn(4, 6, 8)
    table = isoscope.measure(model, [x], tmp_path, quiet=True, taps=BOTH, ablate_queries=True).table(policy="every")
    with torch.inference_mode():
        q, k = model[0].q(x).double(), model[0].k(x).double()
        q = q - q.mean((0, 1))
        p = torch.softmax(q @ k.mT / 8**0.5, -1)
    rows = table.query("kind == 'attention_without_mean_query' and metric == 'attention_entropy' and policy == 'all' and layer == 1")
    np.testing.assert_allclose(rows.query("head == 0")["value"].item(), -(p * p.log()).sum(-1).mean().item(), rtol=1e-5)


def test_a_model_without_attention_says_so(model_of, data, tmp_path):
    with pytest.raises(IsoscopeError, match="no attention in its blocks"):
        measured(model_of("ResNet"), data["images"], tmp_path, seq_len=None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"taps": "hiden"}, "did you mean hidden"),
        ({"taps": ""}, "got neither"),
        ({"taps": "hidden", "attention_median": True}, "add --taps hidden,attention"),
    ],
)
def test_taps_that_make_no_sense(options, said, tmp_path):
    with pytest.raises(IsoscopeError, match=said):
        isoscope.measure("nowhere", "embedded", tmp_path, **options)


def whole_layout(b, t):
    one = np.arange(b * t).reshape(b, t)
    unit = np.arange(b, dtype=np.int64)
    return Layout(np.full((b, t), 2, np.int16), None, one.astype(np.uint64), one, unit.astype(np.uint64), unit, unit, np.ones(b, bool))


def test_the_options_are_part_of_what_a_cell_is(model_of, data, tmp_path):
    folder = model_of("BERT")
    for options in ({"taps": "hidden"}, {}, {"query_rows": 4}):
        measured(folder, data["text"], tmp_path, **options)
    identities = [json.dumps(manifest["identity"], sort_keys=True) for manifest in isoscope.open(tmp_path).manifests()]
    assert len(set(identities)) == 3


@pytest.mark.parametrize("keep", ["rows", "sums", "all"])
def test_the_announced_size_is_that_of_what_is_kept(keep):
    """Of heads and rows that have seen enough for full matrices and a full sample."""
    rng = np.random.default_rng(0)
    heads, rows = Heads(4, 64, ["first", "body"], sample=64), AttentionStatistics(4, 64, ["first", "body"], histogram=True)
    layout = whole_layout(6, 40)
    codes = np.where(np.arange(40) < 20, 0, 1) * np.ones((6, 1), np.int16)
    x = rng.standard_normal((6, 4, 40, 64)).astype(np.float32)
    assert heads.update(x, codes, layout.group, unit=layout.unit, last=layout.last) == {}
    heads.draw(x, layout.hashes, layout.item, layout.index, codes)
    for kept in (heads, rows):
        held = sum(array.nbytes for array in state_of(kept, sample=keep == "all").values())
        assert size_of(kept).disk(keep) == pytest.approx(0 if keep == "rows" else held, rel=0.1)
        assert size_of(kept).memory >= held


def test_threads_of_torch_and_of_blas_are_limited_and_given_back():
    def used():
        return torch.get_num_threads(), [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    torch.set_num_threads(2)
    try:
        with threadpool_limits(2, user_api="blas"):
            before = used()
            with limit_threads(1):
                inside = used()
            with limit_threads(None):
                assert used() == before
            assert used() == before
    finally:
        torch.set_num_threads(1)
    assert before[0] == 2
    assert 2 in before[1]
    assert inside[0] == 1
    assert set(inside[1]) == {1}
