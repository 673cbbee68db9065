"""Layers that are asked for are there, in every way of measuring; others are refused in one sentence."""

import pytest
import torch
from torch import nn

import isoscope
from isoscope.core.errors import IsoscopeError
from tests.watching.watched import batches, started


def encoder(norm=True):
    torch.manual_seed(0)
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 5, nn.LayerNorm(16) if norm else None)


def chosen(folder, norm=True, **options):
    """The sites of a module of five blocks that these options choose."""
    x = list(torch.randn(6, 4, 7, 16, generator=torch.Generator().manual_seed(1)))
    table = isoscope.measure(encoder(norm), x, folder, quiet=True, sample=0, **options).table("mean_norm")
    return list(dict.fromkeys(zip(table["kind"], table["layer"], strict=True)))


@pytest.mark.parametrize(
    ("layers", "sites"),
    [
        ("0,-1", [("hidden", 0), ("hidden", 5)]),
        ("-6", [("hidden", 0)]),
        ("final", [("final", 6)]),
        ("6", [("final", 6)]),
        ("4-6", [("hidden", 4), ("hidden", 5), ("final", 6)]),
    ],
)
def test_layers_of_a_module_with_a_final_norm(tmp_path, layers, sites):
    assert chosen(tmp_path, layers=layers) == sites


@pytest.mark.parametrize("layers", ["9", "7", "-7", "3-7", "8-9", "input", "output"])
def test_a_layer_that_a_module_does_not_have(tmp_path, layers):
    said = rf"^--layers must name layers that TransformerEncoder has \(0 to 5, final\); got {layers}: correct it or leave it out.$"
    with pytest.raises(IsoscopeError, match=said):
        chosen(tmp_path, layers=f"0,{layers}")
    assert not (tmp_path / "cells").exists()


def test_a_module_without_a_final_norm_has_no_final_layer(tmp_path):
    for layers in ("0,final", "0,6"):
        with pytest.raises(IsoscopeError, match=r"has \(0 to 5\); got (final|6): "):
            chosen(tmp_path, norm=False, layers=layers)


def test_layers_that_keep_second_moments_must_be_there_too(tmp_path):
    with pytest.raises(IsoscopeError, match=r"^--second-moments must name layers .* got 8: "):
        chosen(tmp_path, second_moments="1,8")


def test_attention_has_no_layer_0(tmp_path):
    with pytest.raises(IsoscopeError, match=r"has \(1 to 5\); got 0: "):
        chosen(tmp_path, layers="0,1", taps="attention")


def test_a_range_that_runs_backwards(tmp_path):
    with pytest.raises(IsoscopeError, match=r"^A range of layers goes from the lower to the higher, as in 8-12; got '4-2'\.$"):
        chosen(tmp_path, layers="4-2")


def test_a_layer_that_a_watched_model_does_not_have(tmp_path):
    model, _ = started()
    said = r"^--layers must name layers that Network has \(0 to 2\); got 9: "
    with pytest.raises(IsoscopeError, match=said), isoscope.watch(model, every=1, data=batches()[0], out=tmp_path, layers="0,9"):
        pass


def test_models_by_name(small_models, texts, tmp_path):
    """A layer may be in one stack only; tied tables are one table, which is the input."""
    options = {"quiet": True, "sample": 0, "max_items": 8, "seq_len": 16}
    with pytest.raises(IsoscopeError, match=r"has \(encoder 0 to 3, decoder 0 to 2, final, input\); got 5: "):
        isoscope.measure(str(small_models("t5")), str(texts), tmp_path / "none", layers="0,5", **options)
    table = isoscope.measure(str(small_models("t5")), str(texts), tmp_path / "t5", layers="3,input", **options).table("mean_norm")
    found = set(table[["stack", "kind", "layer"]].astype(object).where(table["layer"].notna(), None).itertuples(index=False, name=None))
    assert {("encoder", "hidden", 3), ("decoder", "final", 3)} < found
    assert len(found) == 3
    with pytest.raises(IsoscopeError, match=r"has \(0 to 3, input\); got final: "):
        isoscope.measure(str(small_models("bert")), str(texts), tmp_path / "none", layers="-1,final", **options)
