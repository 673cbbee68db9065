"""The announced memory is an estimate within 30 %, and to be quiet changes nothing but what is printed."""

import json
import os
import subprocess
import sys
import weakref

import pytest

import isoscope
from isoscope.measuring.memory_estimate import CallSizes, HeldPlan, SitePlan, forget_peak, peak_memory, resident_memory
from isoscope.measuring.model_feeder import ModelFeeder
from isoscope.measuring.options import Options
from isoscope.measuring.single_pass import Pass
from isoscope.models.naming.model_name import resolve_model
from isoscope.sources import open_source
from isoscope.statistics.site_statistics import SiteStatistics
from tests.conftest import word_tokenizer

MEASURE = """
import json, sys, tempfile
from isoscope.measuring import memory_estimate, model_feeder
from isoscope.measuring.cell import measure_model
from isoscope.measuring.options import Options
from isoscope.core.progress import Progress
from isoscope.models.naming.model_name import resolve_model
from isoscope.sources import open_source
from isoscope.runs.run import Run
announced = []
model_feeder.estimate_peak = lambda *given: announced.append(memory_estimate.estimate_peak(*given)) or announced[-1]
model, options = json.loads(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    run, source = Run(folder), open_source("embedded")
    run.prepare()
    measure_model(run, resolve_model(model), source, Options(**options), Progress(quiet=True), identity={"weights": model}, part=True)
print(json.dumps([announced[0], memory_estimate.peak_memory()]))
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


def test_no_state_outlives_its_batch(small_models, texts):
    """No state outlives its batch, but for the last one of a stack, and full statistics have a fixed size."""
    options = Options(batch_size=2, sample=16)
    feeder = ModelFeeder(resolve_model(str(small_models("bert"))), open_source(str(texts)), options)
    single_pass = Pass(feeder, options)
    single_pass.learn(feeder.probe())
    states, sizes, receive = [], [], single_pass.sites.tap.receive

    def watch(site, state):
        states.append(weakref.ref(state))
        receive(site, state)

    single_pass.sites.tap.receive = watch
    for window in feeder.windows():
        for batch in window:
            single_pass.reduce(batch)
            assert sum(state() is not None for state in states) <= 1
        sizes.append(sum(array.nbytes for kept in single_pass.statistics.values() for array in kept.state().values()))
    assert len(states) > 100
    assert len(sizes) > 2
    assert len(set(sizes)) == 1


def test_quiet_changes_only_what_is_printed(small_models, texts, tmp_path, monkeypatch, capsys):
    """The same forward passes: one that shows the sites, and one per batch."""
    forward, batches = ModelFeeder._forward, ModelFeeder._batch
    tables, counts = [], []
    for quiet in (False, True):
        passes, made = [], []
        monkeypatch.setattr(ModelFeeder, "_forward", lambda self, fed, seen=passes: seen.append(fed) or forward(self, fed))
        monkeypatch.setattr(ModelFeeder, "_batch", lambda self, *given, seen=made: seen.append(given) or batches(self, *given))
        tables.append(isoscope.measure(str(small_models("bert")), str(texts), tmp_path / str(quiet), quiet=quiet, max_items=20).table())
        counts.append((len(passes), len(made)))
        assert ("of memory at the peak" in capsys.readouterr().err) is not quiet
    assert counts[0] == counts[1]
    assert counts[0][0] == counts[0][1] + 1
    assert tables[0].drop(columns="spec").equals(tables[1].drop(columns="spec"))


def test_a_cell_that_does_not_fit_on_the_disk_is_refused(small_models, texts, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(isoscope.IsoscopeError, match="The run will write"):
        isoscope.measure(str(small_models("bert")), str(texts), tmp_path / "run", quiet=True, max_items=3)


def test_the_size_of_statistics_is_that_of_their_arrays():
    import numpy as np

    statistics = SiteStatistics(24, ["special", "body"], sample=50)
    statistics.moments[0].update(np.random.default_rng(0).standard_normal((60, 24)))
    statistics.moments[1].update(np.random.default_rng(1).standard_normal((60, 24)))
    groups, matrix = statistics.groups.sums.nbytes, statistics.moments[0].second.outer.nbytes
    assert SitePlan(24, 2, True, False, 50, None).memory() == groups + 2 * matrix + 2 * 50 * 24 * 4
    assert HeldPlan(1000, 200, 30).memory() == 1260
    assert HeldPlan(1000, 200, 30).disk("all") == 1130


def test_the_largest_call_of_a_module_is_found():
    import torch
    from torch import nn

    sizes, net = CallSizes(), nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 2))
    with sizes.of_calls_in(net):
        net(torch.zeros(3, 4))
    assert sizes.largest == 4 * 3 * (100 + 100)  # what the activation reads and makes
    before = sizes.largest
    net(torch.zeros(30, 4))
    assert sizes.largest == before


def test_the_peak_is_not_below_what_is_held():
    forget_peak()
    assert peak_memory() >= 0.9 * resident_memory() > 0
