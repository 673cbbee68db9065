"""The trainings that come with isoscope, and every verb that reads a run of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from tests.golden import names
from tests.golden.outcome import Outcome, golden
from tests.golden.tables import (
    average_heads,
    describe_cells,
    digest_series,
    draw_figures,
    list_sections,
    pick,
    plain_claims,
    plain_frame,
    plain_rows,
)
from tests.golden.workshop import Workshop
from tests.patience import HANG_LIMIT


def make_suites(shop: Workshop) -> Path:
    """A few checkpoints of both embedded trainings, with what is derived from them."""
    out = shop.at("suites")
    fixed = {"data": "embedded", "out": out, "layers": "0,2,4,6,final", "max_items": 6, "seq_len": 32, "sample": 128, "query_rows": 8}
    for suite, steps, seed in (("encoder", "0,100,800", "0"), ("encoder", "0,800", "1"), ("decoder", "0,800", "0")):
        shop.command("sweep", f"embedded:{suite}", steps=steps, seeds=seed, median=True, quiet=True, **fixed)
    shop.command("dynamics", out, centred=True, json=True)
    return out


@golden("suites")
def suites(shop: Workshop) -> Outcome:
    """Every layer of every checkpoint, the means over heads, and the whole of two heads."""
    measured = pick(names.open_table(shop.share(make_suites)), step=[0, 100, 800], seed=[0, 1])
    heads = pick(measured, step=800, seed=0, layer=4, head=[0, 1], model="encoder")
    return Outcome({"rows": average_heads(measured), "heads": plain_rows(heads)}, describe_cells(measured))


@golden("suites")
def dynamics(shop: Workshop) -> Outcome:
    """What is derived from the checkpoints of a training together."""
    run = shop.share(make_suites)
    rows = shop.json("dynamics", run, policy="all", centred=True)
    series = pick(names.open_series(run), policy="all")
    return Outcome({"rows": plain_rows(plain_dynamics(rows)), "series": digest_series(series)})


def plain_dynamics(rows: list[dict[str, object]]) -> object:
    """The rows of `dynamics` with the types of a table."""
    import pandas as pd

    return pd.DataFrame(rows).convert_dtypes().astype(dict.fromkeys(("value", "low", "high", "null", "null_sd"), "float64"))


@golden("suites")
def figures_of_training(shop: Workshop) -> Outcome:
    """The data and the marks of every figure over training."""
    run = shop.share(make_suites)
    data, told = draw_figures(names.list_figures(), names.open_table(run, policy="every"), names.open_series(run))
    return Outcome({"data": data}, told)


@golden("suites")
def claims_of_trainings(shop: Workshop) -> Outcome:
    """Claims of one paper about trainings; `--strict` ends with 1 where one fails."""
    run = shop.share(make_suites)
    rows = shop.json("claims", run, paper="godey2024")
    fails = any(row["outcome"] == "fails" for row in rows)
    rows += shop.json("claims", run, paper="razzhigaev2024", also="hubness")
    shop.command("claims", run, paper="godey2024", strict=True, expect=int(fails))
    return Outcome(plain_claims(rows))


@golden("suites")
def comparison(shop: Workshop) -> Outcome:
    """What changed between two checkpoints, with a limit that ends a build."""
    run = shop.share(make_suites)
    told = shop.json("compare", run, run, model="encoder@0=encoder@800", policy="body", metric=["between_cosine", "effective_rank/d"])
    shop.command("compare", run, run, model=["encoder@0=encoder@800"], fail_over=0.0001, expect=1)
    return Outcome({"rows": plain_frame(told.pop("rows"))}, told)


@golden("suites")
def report(shop: Workshop) -> Outcome:
    """The sections of the page, and one figure as files."""
    run, page, figures = shop.share(make_suites), shop.at("page.html"), shop.at("figures")
    shop.json("report", run, out=page, title="Golden", also="hubness")
    shop.command("report", run, figures=figures, only="training_onsets")
    return Outcome(words=list_sections(page.read_text("utf-8")) | {"names": sorted(path.name for path in figures.iterdir())})


@golden("suites")
def citation(shop: Workshop) -> Outcome:
    """The methods paragraph without versions and hashes, and the keys of the works that it cites."""
    told = shop.json("cite", shop.share(make_suites))
    methods = [re.sub(r"\b[0-9a-f]{12}\b", "HASH", re.sub(r"\d+\.\d+\.\d+[\w.+]*", "VERSION", text)) for text in told["methods"]]
    return Outcome(words={"methods": methods, "works": sorted(told["bibtex"])})


@golden("suites")
def server(shop: Workshop) -> Outcome:
    """The page as a process of its own serves it."""
    words = shop.spell("serve", shop.share(make_suites), port=0, title="Golden")
    process = subprocess.Popen([sys.executable, "-m", "isoscope", *words], stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert process.stderr is not None
        address = process.stderr.readline().split()[0]
        until = time.monotonic() + HANG_LIMIT
        while not (found := list_sections(fetch_page(address)))["sections"]:  # until the page is built, another one asks to wait
            assert time.monotonic() < until, "the page was not built"
            time.sleep(0.3)
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(HANG_LIMIT)
    return Outcome(words=found | {"code": code})


def fetch_page(address: str) -> str:
    with urllib.request.urlopen(address, timeout=HANG_LIMIT) as answer:
        return str(answer.read().decode())
