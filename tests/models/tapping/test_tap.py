"""Every layer of every shape of model equals brute force over `output_hidden_states`, under every policy."""

import numpy as np
import pytest
import torch

import isoscope
from isoscope.models.loading.chunk import Chunk
from isoscope.models.loading.load import load_model
from isoscope.models.naming.model_name import resolve_model
from isoscope.models.tapping.tap import Tap
from isoscope.sources import open_source
from tests.conftest import SMALL
from tests.models.brute_layers import brute, choose, hidden_states, sequences_of


def compare(folder, texts, out, *, tolerance, seq_len=64, policies=("all", "no-special", "body"), **options):
    """Measure a model and hold every layer against brute force; the number of values compared."""
    results = isoscope.measure(str(folder), str(texts), out, quiet=True, seq_len=seq_len, **options)
    table = results.table(policy="every")
    loaded = load_model(resolve_model(str(folder)))
    sequences = sequences_of(loaded, open_source(str(texts)), seq_len)
    states = hidden_states(loaded, sequences)
    measured = table[table["kind"].isin(["hidden", "final"])].dropna(subset=["layer"])
    sites = {(r.stack, r.kind, r.layer) for r in measured.itertuples()}
    assert sites <= set(states)
    assert len(sites) == (len(options["layers"].split(",")) if "layers" in options else len(states))
    states = {site: found for site, found in states.items() if site in sites}
    compared = 0
    for (stack, kind, layer), found in states.items():
        for policy in policies:
            points, items = choose(found, sequences, policy, start=stack == "decoder" and len(loaded.family.stacks(loaded.base)) > 1)
            rows = measured.query("stack == @stack and kind == @kind and layer == @layer and policy == @policy").set_index("metric")
            assert (rows.loc["mean_norm", "n"], rows.loc["mean_norm", "d"]) == points.shape
            for name, value in brute(points, items).items():
                assert rows.loc[name, "value"] == pytest.approx(value, rel=tolerance, abs=tolerance), (stack, kind, layer, policy, name)
                compared += 1
    return compared


@pytest.mark.parametrize("name", SMALL)
def test_each_layer_equals_brute_force(name, small_models, texts, tmp_path):
    """Padding and special tokens are respected: the reference runs one sequence at a time."""
    assert compare(small_models(name), texts, tmp_path / "run", tolerance=1e-5, batch_size=3) >= 4 * 3 * 13


@pytest.mark.parametrize("name", SMALL)
def test_a_tapped_model_computes_the_same_bit_for_bit(name, small_models):
    loaded = load_model(resolve_model(str(small_models(name))))
    ids = np.random.default_rng(0).integers(5, 60, (4, 20))
    feed = loaded.family.reader(loaded, None).feed([Chunk(row[:n], n) for row, n in zip(ids, (20, 12, 20, 20), strict=True)]).arguments
    seen = []
    with torch.inference_mode():
        plain = loaded.base(**feed)[0]
        tap = Tap(loaded.family.stacks(loaded.base), lambda site, state: seen.append((site.label, float(state.sum()))))
        tap.begin()
        with tap.attach():
            tapped = loaded.base(**feed)[0]
        after = loaded.base(**feed)[0]
    assert torch.equal(plain, tapped)
    assert torch.equal(plain, after)
    depth = 3 if name != "t5" else 3 + 2 + 1
    finals = {"bert": 0, "albert": 0, "gpt2": 1, "llama": 1, "opt": 1, "t5": 2}[name]
    assert len(seen) == len({label for label, _ in seen}) == depth + 1 + finals


def test_a_tap_one_layer_off_is_seen(small_models, texts, tmp_path, monkeypatch):
    """The comparison above can fail: shifted by one layer it does."""
    whole = Tap._leave_block

    def shifted(self, stack):
        hook = whole(self, stack)

        def late(module, args, output):
            return hook(module, args, args[0])

        return late

    monkeypatch.setattr(Tap, "_leave_block", shifted)
    with pytest.raises(AssertionError):
        compare(small_models("bert"), texts, tmp_path / "run", tolerance=1e-5)


def test_static_tables_are_sites(small_models, texts, tmp_path):
    from safetensors.numpy import load_file

    weights = load_file(small_models("llama") / "model.safetensors")
    table = isoscope.measure(str(small_models("llama")), str(texts), tmp_path / "run", quiet=True).table("mean_norm", "every")
    for kind, name in (("input_embedding", "model.embed_tokens.weight"), ("output_embedding", "lm_head.weight")):
        row = table[table["kind"] == kind]
        assert list(row["policy"]) == ["all"]
        assert row["value"].iloc[0] == pytest.approx(np.linalg.norm(weights[name].astype(np.float64), axis=1).mean(), rel=1e-6)
    tied = isoscope.measure(str(small_models("gpt2")), str(texts), tmp_path / "tied", quiet=True).table("mean_norm")
    assert "output_embedding" not in set(tied["kind"])


def test_untrained_is_the_same_architecture_with_other_weights(small_models, texts, tmp_path):
    folder = str(small_models("bert"))
    table = isoscope.measure([folder, f"untrained:{folder}"], str(texts), tmp_path / "run", quiet=True).table("mean_norm", "all")
    by_model = dict(list(table.groupby("model")))
    trained, twin = by_model["small-bert"], by_model["untrained:small-bert"]
    assert list(trained["layer"]) == list(twin["layer"])
    assert not np.allclose(trained["value"], twin["value"], rtol=0.05)
    again = isoscope.measure(f"untrained:{folder}", str(texts), tmp_path / "again", quiet=True).table("mean_norm", "all")
    assert np.array_equal(again["value"], twin["value"])


@pytest.mark.models
def test_minilm_on_the_embedded_text(minilm, tmp_path):
    """A real encoder: each layer within 1e-5 of brute force."""
    compare(minilm, _start_of_the_embedded_text(tmp_path, 40), tmp_path / "run", tolerance=1e-5, seq_len=128)


@pytest.mark.models
@pytest.mark.slow
def test_smollm2_on_the_embedded_text(smollm2, tmp_path):
    """A real decoder with massive activations, from a GGUF file: each layer within 1e-5 of brute force."""
    compare(
        smollm2,
        _start_of_the_embedded_text(tmp_path, 32, longest=300),
        tmp_path / "run",
        tolerance=1e-5,
        seq_len=128,
        policies=("all", "body"),
        layers="1,15,final",
    )


def _start_of_the_embedded_text(tmp_path, count, longest=None):
    import json
    from itertools import islice

    path = tmp_path / "start.jsonl"
    items = islice(open_source("embedded").items(), count)
    path.write_text("\n".join(json.dumps({"text": item.content[:longest]}) for item in items), "utf-8")
    return path
