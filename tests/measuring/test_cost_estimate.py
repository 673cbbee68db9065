"""The announced memory is an estimate within 30 %, and the cost of a plan is that of finished cells."""

import json
import os
import subprocess
import sys

import pytest

from isoscope.core.wording import format_duration
from isoscope.measuring import cost_estimate
from isoscope.measuring.cost_estimate import Cost, Costs, PlanEntry, StatisticsSize, format_plan, guess_seconds, note_call_sizes
from isoscope.statistics.site_statistics import SiteStatistics
from tests.conftest import word_tokenizer

MEASURE = """
import json, sys, tempfile
from isoscope.core import machine
from isoscope.measuring import cost_estimate, model_feeder
from isoscope.measuring.cell import measure_model
from isoscope.measuring.options import Options
from isoscope.core.progress import Progress
from isoscope.models.naming.model_name import resolve_model
from isoscope.sources import open_source
from isoscope.runs.run import Run
announced = []
model_feeder.estimate_peak = lambda *given: announced.append(cost_estimate.estimate_peak(*given)) or announced[-1]
model, options = json.loads(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    run, source = Run(folder), open_source("embedded")
    run.prepare()
    measure_model(run, resolve_model(model), source, Options(**options), Progress(quiet=True), identity={"weights": model}, part=True)
print(json.dumps([announced[0], machine.peak_memory()]))
"""
"""A shard in a process of its own: forward passes and statistics, and no tables."""


@pytest.fixture(scope="module")
def wide_model(tmp_path_factory):
    """A model whose statistics and states take several times the memory of its weights."""
    import transformers as t

    folder = tmp_path_factory.mktemp("wide") / "bert"
    config = t.BertConfig(vocab_size=80, hidden_size=768, num_hidden_layers=4, num_attention_heads=4, intermediate_size=768)
    t.BertModel(config).save_pretrained(folder)
    word_tokenizer(folder, around=True)
    return folder


UNCACHED = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
"""Under these, glibc gives every freed block back. By default it keeps some, and the peak of equal runs then differs by a tenth."""


def announced_and_peak(model, environment=None, **options):
    command = [sys.executable, "-c", MEASURE, json.dumps([str(model), options])]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | (environment or {}))
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize("tokens", [6_000, 30_000])
def test_the_announced_memory_is_within_30_percent(wide_model, tokens):
    announced, peak = announced_and_peak(wide_model, max_tokens=tokens, batch_size=32)
    assert announced == pytest.approx(peak, rel=0.3)


def test_memory_does_not_grow_with_the_number_of_tokens(wide_model):
    """Four batches and sixteen, with a sample that both fill."""
    peaks = [announced_and_peak(wide_model, UNCACHED, max_tokens=n, batch_size=32, sample=256)[1] for n in (8_000, 32_000)]
    assert peaks[1] < 1.1 * peaks[0]


def test_the_size_of_statistics_is_that_of_their_arrays():
    import numpy as np

    statistics = SiteStatistics(24, ["special", "body"], sample=50)
    statistics.moments[0].update(np.random.default_rng(0).standard_normal((60, 24)))
    statistics.moments[1].update(np.random.default_rng(1).standard_normal((60, 24)))
    groups, matrix = statistics.groups.sums.nbytes, statistics.moments[0].second.outer.nbytes
    assert StatisticsSize.of_points(24, 2, 1, 50, None).memory == groups + 2 * matrix + 2 * 50 * 24 * 4
    size = StatisticsSize.of_points(24, 2, 1, 50, 20)  # fewer points than dimensions: they are kept instead of a matrix
    assert size.memory == groups + 24 * 20 * 4 + 20 * 24 * 4
    assert [size.disk(store) for store in ("rows", "sums", "all")] == [0, groups + 24 * 25 * 4, groups + 24 * 25 * 4 + 20 * 24 * 4]


def test_the_largest_call_of_a_module_is_found():
    import torch
    from torch import nn

    net = nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 2))
    with note_call_sizes(net) as sizes:
        net(torch.zeros(3, 4))
    # Each layer reads and makes; the activation most of all, but for the whole network, which reads 4 and makes 2.
    assert sizes == [4 * 3 * size for size in (4 + 100, 100 + 100, 100 + 2, 4 + 2)]
    net(torch.zeros(30, 4))
    assert len(sizes) == 4


def test_costs_are_those_of_finished_cells_scaled_by_size():
    files = {"rows.parquet": {"bytes": 100}, "statistics.safetensors": {"bytes": 300}}
    finished = [
        ({"seconds": 10, "memory": 5 << 30, "files": files}, 2.0),
        ({"seconds": 30, "memory": 6 << 30, "files": {"rows.parquet": {"bytes": 150}}}, 6.0),
        ({"files": files}, 9.0),  # of an older version: it does not tell how long it took
    ]
    assert Costs(finished).estimate(3.0, cells=2) == Cost(40 / 8 * 3 * 2, 6 << 30, 800)
    assert Costs([]).estimate(3.0, weights=1 << 30) == Cost(None, 3 << 30, None, guessed=True)


def test_a_guess_grows_with_weights_tokens_and_cells_and_doubles_with_attention(monkeypatch):
    monkeypatch.setattr(cost_estimate, "multiply_speed", lambda: 1e9)
    # 25 million weights, 2 operations each, 1,000 tokens, at a billion operations per second: 50 s, four times over.
    assert guess_seconds(100_000_000, 1000) == 6 + 2 + 4 * 50
    assert guess_seconds(100_000_000, 1000, 3) == 6 + 3 * (2 + 4 * 50)
    assert guess_seconds(100_000_000, 1000, attention=True) == 6 + 2 + 8 * 50
    assert guess_seconds(100_000_000, None) is None


def test_a_plan_adds_up_its_entries():
    entries = [PlanEntry("a", 4, 3, Cost(60.0, 2 << 30, None)), PlanEntry("b; measured already", 1, 0)]
    assert format_plan(entries, 2)[1:] == [
        "b; measured already",
        f"3 of 5 cells to measure, 2 at a time, about {format_duration(30.0)}",
    ]
    guess = PlanEntry("c", 1, 1, Cost(30.0, 2 << 30, None, guessed=True))
    assert format_plan([guess], 1)[-1] == "1 of 1 cells to measure, 1 at a time, about 30 s, a guess from the sizes of models and sources"
    unknown = PlanEntry("d", 1, 1, Cost(None, 2 << 30, None))
    assert format_plan([guess, unknown], 1)[-1].endswith("1 at a time, time not known before the first is measured (or with --max-tokens)")
    assert format_plan(entries, None)[-1] == f"3 of 5 cells to measure, about {format_duration(60.0)} in one process"
    assert format_plan(entries[1:], 1, remote=True)[-1] == "0 of 1 cells to measure, as many at a time as the cluster has room for"
