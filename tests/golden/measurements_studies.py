"""The untrained block, small trainings, the papers, and what `isoscope list` lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import safe_open

import isoscope
from tests.golden import inputs, names
from tests.golden.measurements_models import make_model
from tests.golden.outcome import EXACT, Outcome, golden
from tests.golden.tables import digest_series, draw_figures, plain_frame, plain_rows
from tests.golden.workshop import Workshop

LISTED = ("metrics", "families", "sources", "figures", "claims", "recipes")
FACTS = ("licence", "range", "reads", "computed", "family", "modality", "attention", "paper", "steps")


@golden("studies", tolerance=1e-4)
def block(shop: Workshop) -> Outcome:
    """An untrained block in several forms, held against a run; and the figures of it.

    Its numbers are differences of cosines of nearly equal states, and Student's t of two draws multiplies their error by nine.
    """
    out = shop.at("block")
    trained = isoscope.measure(inputs.encoder_module(), inputs.tensors("held", 2, 3, 5, 12), shop.at("held"), name="held", quiet=True)
    sizes = {"d": 16, "heads": 2, "inner": 32, "vocabulary": 60, "length": 12, "batch": 2, "query_rows": 5, "sigma": 0.05, "seed": 1}
    told = shop.json(
        *("block",),
        init="bert,torch",
        norm="post,pre,rms",
        depth="1,2",
        variant="full,mlp-only",
        norms="0,1,5",
        draws=2,
        **{"trained": trained.path, "threads": 1, "out": out, "quiet": True, **sizes},
    )
    folder = make_model(shop, "GPT-2")
    shop.command("block", arch=folder, out=out, norms="0,5", draws=1, batch=2, length=8, quiet=True)
    table, series = names.open_table(out, policy="every"), names.open_series(out)
    data, marks = draw_figures(names.list_figures(), table, series)
    return Outcome(
        {"rows": plain_rows(table), "series": digest_series(series), "printed": plain_frame(told["numbers"]), "figures": data}, marks
    )


@golden("studies", tolerance=1e-3)
def training(shop: Workshop) -> Outcome:
    """A small training that is stopped and continued, its losses, and a sweep of its checkpoints.

    Adam divides a gradient by its own size, so that a gradient of rounding error alone moves a weight as far as any other.
    """
    text = inputs.write_text(shop.at("train.txt"), 60)
    lines = shop.at("train.jsonl")
    lines.write_text("".join(json.dumps({"body": one}) + "\n" for one in text.read_text("utf-8").split("\n\n")), "utf-8")
    suite = shop.at("suite")
    fixed = {"out": suite, "data": lines, "column": "body", "seeds": "0-1", "steps": 3, "checkpoints": "0,1,3", "norm": "post"}
    fixed |= {"level": "characters", "width": 16, "layers": 2, "heads": 2, "length": 16, "batch": 4, "rate": 0.003, "dtype": "float32"}
    shop.command("train", "causal-text", **fixed, threads=1, quiet=True, stop=2)
    shop.command("train", "causal-text", **fixed, threads=1, quiet=True)
    losses = pd.concat([pd.read_csv(path).assign(seed=i) for i, path in enumerate(sorted(suite.glob("seed-*/loss.csv")))])
    audit = shop.command("sweep", suite, out=shop.at("along"), audit_only=True)
    plan = shop.command("sweep", suite, out=shop.at("along"), data=text, dry_run=True)
    shop.command("sweep", suite, out=shop.at("along"), data=text, steps="0,3", seeds="0", max_items=6, seq_len=16, sample=64, quiet=True)
    table = names.open_table(shop.at("along"), ["between_cosine", "mean_norm", "attention_entropy", "qk_cosine"])
    return Outcome({"losses": losses.reset_index(drop=True), "rows": plain_rows(table)}, {"audit": audit, "planned": bool(plan)})


@golden("studies", tolerance=1e-3)
def recipes(shop: Workshop) -> Outcome:
    """One step of every recipe on what comes with isoscope: its loss, and the weights that it begins with."""
    frames, sizes = [], {}
    for row in shop.json("list", "recipes"):
        suite = shop.at(f"recipe-{row['name']}")
        shop.command("train", row["name"], out=suite, steps=1, width=16, layers=1, heads=2, batch=2, threads=1, quiet=True)
        frames.append(pd.read_csv(suite / "seed-0" / "loss.csv").assign(name=row["name"]))
        with safe_open(suite / "seed-0" / "step-0" / "model.safetensors", "numpy") as file:
            sizes[row["name"]] = {name: float(np.abs(file.get_tensor(name)).sum()) for name in sorted(file.keys())}
    return Outcome({"losses": pd.concat(frames, ignore_index=True)}, sizes)


class Logger:
    """Holds what a watch logs."""

    def __init__(self) -> None:
        self.values: list[dict[str, Any]] = []

    def log(self, step: int, values: dict[str, float]) -> None:
        self.values += [{"step": step, "name": name, "value": value} for name, value in values.items()]

    def close(self) -> None:
        pass


@golden("studies", EXACT)
def watched_training(shop: Workshop) -> Outcome:
    """A training in float64 that is watched, with its losses, gradients and warnings."""
    import warnings

    import torch

    model, logger = inputs.encoder_module(), Logger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    probe, batches = inputs.tensors("probe", 1, 4, 7, 12)[0], inputs.tensors("step", 5, 4, 7, 12)
    watch = isoscope.watch(
        *(model, 2, probe, shop.at("watched")),
        optimizer=optimizer,
        log=logger,
        name="watched",
        seed=4,
        limits={"rank": 0.99, "cosine": 0.1},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with watch:
            for batch in batches:
                loss = (model(batch) - batch.flip(1)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                watch.step(loss=loss)
            watch.note(5, validation_loss=0.25)
    rows, series = names.open_table(watch.results(), policy="every"), names.open_series(watch.results())
    frames = {"rows": plain_rows(rows), "series": digest_series(series), "logged": pd.DataFrame(logger.values)}
    return Outcome(frames, {"sentences": watch.warnings})


def make_folder(shop: Workshop) -> Path:
    """A folder with two models, as `reproduce --models local` finds them."""
    folder = shop.at("local")
    folder.mkdir()
    for title in ("BERT", "GPT-2"):
        (folder / title).symlink_to(make_model(shop, title))
    return folder


@golden("studies")
def reproductions(shop: Workshop) -> Outcome:
    """Both papers: what they plan, one figure from chance, one from local models."""
    plans = {paper: shop.command("reproduce", paper, dry_run=True, out="run") for paper in ("godey2024", "razzhigaev2024")}
    chance = shop.json("reproduce", "godey2024", figure="17", out=shop.at("chance"), quiet=True)
    local = shop.json(
        *("reproduce", "razzhigaev2024"),
        models="local",
        folder=shop.share(make_folder),
        figure="profiles",
        out=shop.at("profiles"),
        data=inputs.write_text(shop.at("local.txt")),
        max_items=8,
        threads=1,
        device="cpu",
        engine="local",
        processes=1,
        quiet=True,
    )
    series = names.open_series(shop.at("chance"))
    data, marks = draw_figures(names.list_figures(), names.open_table(shop.at("chance"), policy="every"), series)
    table = names.open_table(shop.at("profiles"), ["top_share", "bell"])
    words = {"planned": {paper: plan.splitlines() for paper, plan in plans.items()}, "chance": chance, "local": local, "figures": marks}
    return Outcome({"rows": plain_rows(table), "series": digest_series(series), "figures": data}, words)


@golden("studies")
def listing(shop: Workshop) -> Outcome:
    """Everything that `isoscope list` lists, by name, without the prose."""
    rows = {what: shop.json("list", what) for what in LISTED} | {"packages": shop.json("fetch", list=True, quiet=True)}
    return Outcome(
        words={
            what: {row["name"]: {field: row[field] for field in FACTS if field in row} for row in listed} for what, listed in rows.items()
        }
    )
