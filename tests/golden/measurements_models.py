"""Random models of every family on text, clips and images, whole and in shards."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd

import isoscope
from tests.golden import inputs, names
from tests.golden.outcome import Outcome, golden
from tests.golden.tables import average_heads, describe_cells, digest_series, draw_figures, pick, plain_claims, plain_frame, plain_rows
from tests.golden.workshop import Workshop

FEW = ["between_cosine", "mean_norm", "drift_ratio", "effective_rank", "top_share", "attention_entropy", "qk_cosine", "sink_mass"]
"""Metrics of which every architecture is stored; the others are functions of the same statistics."""

MANY = 1100
"""Symbols of a model that reads tokens; one with fewer than 1,024 counts as a model of characters."""
DRAWN = ["BERT-1100", "GPT-2-1100", "CANINE-s", "ByT5", "Whisper", "ViT", "SegFormer-(MiT)", "ResNet", "ConvNeXt"]
NEIGHBOURS = ["dimension_scales", "dimension_sizes", "local_isotropy"]
LOCAL = ["local_share", "local_isoscore", "local_share_excess", "local_isoscore_excess", "cluster_share", "cluster_isoscore"]
SCALES = ["gride_scales", "two_nn_sizes"]


def make_data(shop: Workshop) -> Path:
    """Text, clips and images."""
    folder = shop.at("data")
    folder.mkdir()
    inputs.write_text(folder / "text.txt")
    inputs.write_clips(folder / "clips")
    inputs.write_images(folder / "images")
    return folder


def list_sources(shop: Workshop) -> list[str]:
    """One source of each modality."""
    folder = shop.share(make_data)
    return [str(folder / "text.txt"), str(folder / "clips"), str(folder / "images")]


def make_model(shop: Workshop, title: str, **config: Any) -> Path:
    """The folder of a random model; made once."""
    folder = shop.at("-".join([*title.split(), *map(str, config.values())]))
    return folder if folder.exists() else inputs.write_model(title, folder, **config)


def make_encoder_run(shop: Workshop) -> Path:
    """BERT and its untrained twin, with the body split in every way."""
    model, out = make_model(shop, "BERT"), shop.at("encoder")
    shop.command(
        *("measure", model, f"untrained:{model}"),
        data=[f"nobody={shop.at('none')}", *list_sources(shop)],
        out=out,
        split=["sink", "frequency", "position"],
        cosine_sd=True,
        batch_size=3,
        seq_len=24,
        max_tokens=400,
        dtype="float32",
        device="cpu",
        threads=1,
        seed=2,
        sample=200,
        keep="all",
        save_every=600,
        quiet=True,
    )
    return out


@golden("models")
def text_encoder(shop: Workshop) -> Outcome:
    """An encoder under every token policy, and metrics on request from what its run kept."""
    run = shop.share(make_encoder_run)
    table = names.open_table(run, policy="every")
    slow = [row["name"] for row in shop.json("list", "metrics") if row["computed"] == "on request"]
    rows = pd.concat([pick(table, policy=["all", "body"]), pick(table, metric=FEW), pick(names.open_table(run, slow, "body"), layer=2)])
    curves = [names.open_series(run), pick(names.open_series(run, names.list_series()), layer=2)]
    series = pick(pd.concat(curves), policy=["all", "body"]).drop_duplicates(ignore_index=True)
    # The states of the untrained twin leave a layer norm of ones, with equal norms: their histogram is one of rounding errors.
    series = series.drop(pick(series, name="norms", model="untrained:BERT").index)
    return Outcome({"rows": plain_rows(rows.drop_duplicates()), "series": digest_series(series)}, describe_cells(table))


@golden("models")
def text_decoder(shop: Workshop) -> Outcome:
    """A decoder with grouped keys and rotary positions: every option of attention, chosen layers, what the tables print."""
    model, out = make_model(shop, "Llama"), shop.at("decoder")
    told = shop.json(
        *("measure", model),
        data=list_sources(shop),
        out=out,
        layers="0,2,-1,final,input,output",
        gram="2",
        taps="hidden,attention",
        query_rows=7,
        median=True,
        rotated=True,
        sharpness=True,
        max_items=12,
        allow_partial=True,
        maps="per-image",
    )
    table = pd.read_json(io.StringIO(shop.command("table", out, policy="every", format="json")))
    body = json.loads(shop.command("table", out, policy="body", json=True, metric=["mean_cosine", "gride"]))
    shop.command("table", out, series=True, metric="spectrum", format="parquet", out=shop.at("spectrum.parquet"))
    comma = pd.read_csv(io.StringIO(shop.command("table", out, convention=["godey2024", "razzhigaev2024"], format="csv")))
    wide = pd.read_csv(io.StringIO(shop.command("table", out, wide=True, metric="mean_cosine")))
    shop.command("report", out, only="layer_profile", metric="mean_cosine", width="86mm", figures=shop.at("figures"))
    frames = {
        "wide": plain_frame(wide),
        "rows": plain_rows(table),
        "body": plain_rows(pd.DataFrame(body)),
        "conventions": plain_rows(comma),
    }
    series = digest_series(pick(names.open_series(out), policy="all"))
    spectrum = digest_series(pd.read_parquet(shop.at("spectrum.parquet")))
    return Outcome(
        frames | {"series": series, "spectrum": spectrum}, {"told": told} | describe_cells(names.open_table(out, policy="every"))
    )


@golden("models")
def encoder_decoder(shop: Workshop) -> Outcome:
    """Cross-attention, also without the mean query and without the largest dimensions."""
    out = shop.at("both")
    options = {"layers": "1", "taps": "hidden,attention", "sharpness": True, "max_items": 8, "sample": 64, "quiet": True}
    shop.command("measure", make_model(shop, "T5"), data=list_sources(shop), out=out, **options)
    table = names.open_table(out)
    return Outcome({"rows": average_heads(table)}, describe_cells(table))


def make_zoo(shop: Workshop) -> Path:
    """One architecture of each family with its attention, if it has any, and all others by their hidden states, in one run."""
    first = {family: title for title, family in reversed(names.list_architectures())}
    plain = {row["name"] for row in shop.json("list", "families") if row["attention"] == "none"}
    attentive = set(first.values()) - plain
    rest = [title for title, _ in names.list_architectures() if title not in attentive]
    fixed = {"data": list_sources(shop), "out": shop.at("zoo"), "max_items": 8, "processes": 1, "quiet": True}
    shop.command(
        "measure", *(make_model(shop, title) for title in sorted(attentive)), taps="hidden,attention", sample=64, keep="sums", **fixed
    )
    rest_of_models = [make_model(shop, title) for title in rest] + [make_model(shop, title, vocab_size=MANY) for title in ("BERT", "GPT-2")]
    narrow = {"maps": "both", "sample": 0, "keep": "rows", "engine": "local"}
    shop.command("measure", *rest_of_models, **narrow, **fixed)
    return shop.at("zoo")


@golden("zoo")
def architectures(shop: Workshop) -> Outcome:
    """Every architecture of every family: a few metrics of each layer."""
    table = names.open_table(shop.share(make_zoo))
    # With random weights a map of EfficientNet hardly depends on the image: the spectrum around its mean is one of rounding errors.
    table = table.drop(pick(table, model="EfficientNet", kind="map").index)
    return Outcome({"rows": average_heads(pick(table, metric=FEW))}, describe_cells(table))


@golden("zoo")
def drift(shop: Workshop) -> Outcome:
    """Whether drift and cosine go together over the layers of many models."""
    return Outcome({"rows": plain_frame(shop.json("drift", shop.share(make_zoo), policy="body"))})


@golden("zoo")
def claims_of_models(shop: Workshop) -> Outcome:
    """Claims about many models, their levels next to chance, and whether the files of their run are sound."""
    run = shop.share(make_zoo)
    levels = shop.json("baseline", d="16", run=run, policy="all", quiet=True)
    return Outcome(plain_claims(shop.json("claims", run)), {"levels": levels, "verify": shop.json("verify", run, quiet=True)})


@golden("zoo")
def figures_of_models(shop: Workshop) -> Outcome:
    """The data and the marks of every figure of models over their layers, for a model or two of each group."""
    run = shop.share(make_zoo)
    table, series = (pick(frame, model=DRAWN) for frame in (names.open_table(run, policy="every"), names.open_series(run)))
    data, told = draw_figures(names.list_figures(), table, series)
    return Outcome({"data": data}, told)


@golden("models")
def figures_on_request(shop: Workshop) -> Outcome:
    """The data and the marks of figures that need metrics on request: neighbourhoods and scales."""
    run = shop.share(make_encoder_run)
    table = pd.concat([names.open_table(run, policy="every"), names.open_table(run, LOCAL, "every")])
    series = pd.concat([names.open_series(run), names.open_series(run, SCALES)])
    data, told = draw_figures(names.pick_figures(NEIGHBOURS), table, series)
    return Outcome({"data": data}, told)


@golden("models")
def conventions(shop: Workshop) -> Outcome:
    """A run as each source would have measured it."""
    rows = shop.json("conventions", shop.share(make_encoder_run), convention=["ethayarajh2019", "razzhigaev2024"])
    return Outcome({"rows": plain_frame(rows)})


@golden("models")
def shards(shop: Workshop) -> Outcome:
    """A run in two shards that are merged, and the same by one command; both equal one pass."""
    model, source = make_model(shop, "GPT-2"), list_sources(shop)[0]
    fixed = {"data": source, "sample": 100, "quiet": True, "layers": "0-2"}
    for i in (1, 2):
        shop.command("measure", model, out=shop.at(f"part{i}"), shard=f"{i}/2", **fixed)
    told = shop.json("merge", shop.at("part1"), shop.at("part2"), out=shop.at("merged"))
    shop.command("measure", model, out=shop.at("side"), shards=2, **fixed)
    frames = {name: names.open_table(shop.at(name), policy="every") for name in ("merged", "side")}
    again = names.open_table(isoscope.merge([shop.at("part1"), shop.at("part2")], shop.at("again")), policy="every")
    pd.testing.assert_frame_equal(again, frames["merged"])
    kept = {name: plain_rows(pick(frame, metric=[*FEW, "two_nn", "centred_cosine"])) for name, frame in frames.items()}
    return Outcome(kept | {"series": digest_series(names.open_series(shop.at("merged")))}, {"told": told})


@golden("models")
def pooled(shop: Workshop) -> Outcome:
    """One vector per item, of two layers, in three shards of which two are merged first."""
    model, out = make_model(shop, "BERT"), shop.at("pooled")
    fixed = {"data": list_sources(shop)[0], "sample": 100, "quiet": True, "layers": "3"}
    for i in (1, 2, 3):
        place = {"out": shop.at(f"pool{i}"), "shard": f"{i}/3"}
        shop.command("measure", model, pool="mean", pool_layers="1,3", tokenizer=model, **place, **fixed)
    shop.command("merge", shop.at("pool1"), shop.at("pool2"), out=shop.at("pools"), partial=True)
    shop.command("merge", shop.at("pools"), shop.at("pool3"), out=out)
    table = pick(names.open_table(out, policy="every"), kind="pooled")
    return Outcome({"rows": plain_rows(table)}, describe_cells(table))


@golden("models")
def sources(shop: Workshop) -> Outcome:
    """The same model on text from other kinds of files, and what comes with isoscope for each modality."""
    text, model, folder = shop.share(make_data) / "text.txt", make_model(shop, "BERT"), shop.at("kinds")
    folder.mkdir()
    paragraphs = text.read_text("utf-8").split("\n\n")
    (folder / "a.jsonl").write_text("".join(json.dumps({"body": one}) + "\n" for one in paragraphs[:9]), "utf-8")
    pd.DataFrame({"body": paragraphs[9:]}).to_parquet(folder / "b.parquet")
    pages = "".join(
        f"<page><title>T{i}</title><ns>0</ns><revision><text>{one}</text></revision></page>" for i, one in enumerate(paragraphs)
    )
    (folder / "wiki.xml").write_text(f"<mediawiki>{pages}</mediawiki>", "utf-8")
    runs = {
        "jsonl": folder / "a.jsonl",
        "parquet": folder / "*.parquet",
        "wiki": f"{folder}/wiki.xml?alphabet=latin",
        "embedded": "embedded",
    }
    fixed = {"layers": "1", "keep": "rows", "max_items": 6, "quiet": True, "seq_len": 24}
    frames = []
    for name, source in runs.items():
        column = {"column": "body"} if name in ("jsonl", "parquet") else {}
        shop.command("measure", model, data=source, out=shop.at(f"of-{name}"), **column, **fixed)
        frames.append(names.open_table(shop.at(f"of-{name}")).assign(name=name))
    with mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(text.read_bytes()))):
        shop.command("measure", model, data="-", out=shop.at("of-stdin"), **fixed)
    frames.append(names.open_table(shop.at("of-stdin")).assign(name="stdin"))
    for title in ("ViT", "wav2vec 2.0"):
        shop.command("measure", make_model(shop, title), out=shop.at(f"of-{title}"), layers="1", max_items=2, quiet=True)
        frames.append(names.open_table(shop.at(f"of-{title}")).assign(name=title))
    rows = pd.concat(frames, ignore_index=True)
    plan = shop.command("measure", model, data=text, out=shop.at("plan"), dry_run=True)
    shutil.rmtree(folder)
    return Outcome({"rows": plain_rows(pick(rows, metric=FEW))}, {"planned": bool(plan)})


@golden("models", tolerance=0.05)
def half_precision(shop: Workshop) -> Outcome:
    """The same model in bfloat16. Eight bits of a state are kept, so that one rounding that goes the other way moves a number by 0.4 %."""
    out = shop.at("half")
    shop.command("measure", make_model(shop, "BERT"), data=list_sources(shop), out=out, dtype="bfloat16", layers="3", quiet=True)
    table = names.open_table(out, ["between_cosine", "mean_norm", "effective_rank"])
    return Outcome({"rows": plain_rows(table)}, describe_cells(table))
