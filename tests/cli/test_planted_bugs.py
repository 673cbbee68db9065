"""A bug of isoscope's looks like one: wherever it is planted, the command ends with a traceback and exit code 1.

Each test replaces the code of one function by a line that raises. Whoever has imported that function before raises too, from a frame of the
function's own module, as a real bug would.
"""

import builtins
import contextlib
import functools
import html
import inspect
import itertools
import json
import re
from importlib import import_module

import numpy as np
import pytest

from tests.cli.calling import isoscope
from tests.cli.conftest import FAST

KINDS = itertools.cycle(("TypeError", "AttributeError", "ValueError", "KeyError"))
SAID = "planted here"

MEASURING = [
    "statistics.kernel:block_sums",
    "statistics.site_statistics:Moments.add",
    "statistics.jackknife_groups:Groups.update",
    "statistics.sample:Sample.update",
    "models.tapping.reduction:reduce_state",
    "models.tapping.tap:points_of",
    "models.tapping.attention_tap:AttentionTap._see_fused_attention",
    "models.tapping.tensor_graph:TensorGraph.record_call",
    "models.tapping.attention_rows:attention_rows",
    "models.loading.readers.tokenizer:_follow_settings",
    "models.loading.readers.text:_make_chunks",
    "models.loading.readers.text:TextReader._positions",
    "models.loading.file_limits:SizeLimits.check",
    "models.loading.load:_model_class",
    "trust.model_files:weights_in",
    "measuring.single_pass:Pass._receive",
    "models.tapping.layout:BatchLayout.of_attention",
    "models.tapping.layout:BatchLayout.of_states",
    "measuring.cost_estimate:_bytes_of",
    "runs.rows:tables",
    "measuring.scheduler:Scheduler._collect",
    "measuring.task:run_task",
    "runs.writing:write_cell",
    "sources.text:TextSource.read_spans",
]

ON_THE_PAGE = [
    [
        "figures.layer_profile:layer_profile.function",
        "figures.norms:norms.function",
        "report.summary:summarise",
        "report.overview:overview",
        "report.diagnosis:_high_cosine",
        "studies.godey2024.claims.layer_cosines:centring_leaves_no_cosine.decide",
    ],
    ["charts.panels:layer_charts", "report.diagnosis:_collapse", "claims.evidence:model_rows"],
]
"""Of parts of a page: the others are made all the same. Those of a list are planted together."""
REPAIRING = ["repair.linear:Directions.of", "repair.base:map_blocks"]
WATCHING = ["watching.probe:Probe._describe", "measuring.module_feeder:add_to_digest"]
ELSEWHERE = {
    "runs.results:Results.table": ("table", "RUN"),
    "core.table:concat_tables": ("claims", "RUN"),
    "runs.tables:join_frames": ("table", "RUN"),
    "report.page:describe_table": ("report", "RUN", "--out", "OUT"),
    "runs.comparison:_test_differences": ("compare", "RUN", "RUN"),
    "runs.verify:_mistake_in_table_file": ("verify", "RUN"),
    "runs.matrix_geometry:_cloud": ("embeddings", "MATRIX"),
    "trust.arrays.numpy_files:read_npy_header": ("embeddings", "MATRIX"),
    "estimation.eigenvalues:entropy": ("embeddings", "MATRIX"),
    "metrics.drift:mean_norm": ("embeddings", "MATRIX"),
    "studies.untrained_block.experiment:fixed_point": ("untrained-block", "--out", "OUT", "--draws", "2", "--length", "8"),
    "training.loop:held_out_loss": (
        "train",
        "causal-text",
        "--out",
        "OUT",
        "--steps",
        "2",
        "--width",
        "16",
        "--layers",
        "1",
        "--heads",
        "2",
    ),
    "core.registry:Registry._load": ("list", "metrics"),
}


@contextlib.contextmanager
def planted(place, kind, said=SAID):
    """Within this context the function at `module:name` raises an exception of this kind."""
    module, name = place.split(":")
    function = functools.reduce(getattr, name.split("."), import_module(f"isoscope.{module}"))
    function = inspect.unwrap(getattr(function, "fget", getattr(function, "__func__", function)))
    scope = {}
    exec(f"def broken(*args, **kwargs):\n    raise {kind}({said!r})\n", scope)
    before = function.__code__
    function.__code__ = scope["broken"].__code__
    try:
        yield
    finally:
        function.__code__ = before


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    """A file of embeddings."""
    path = tmp_path_factory.mktemp("planted") / "x.npy"
    np.save(path, np.random.default_rng(0).standard_normal((80, 6)))
    return path


def check_looks_like_a_bug(answer, kind):
    assert answer.code == 1, (answer.code, answer.err)
    assert answer.err.count(f"{kind}: ") == 1, answer.err
    assert SAID in answer.err
    trace, _, last = answer.err.partition("Traceback (most recent call last):\n")[2].partition("isoscope: ")
    assert trace.count("\n") > 2
    assert last.startswith("this is a bug in isoscope"), answer.err
    assert "cannot be run" not in answer.err
    assert "cannot be loaded" not in answer.err


@pytest.mark.parametrize(("place", "kind"), list(zip(MEASURING, KINDS, strict=False)))
def test_bugs_while_measuring(place, kind, gpt2, paragraphs, tmp_path):
    words = ("measure", gpt2, "--data", paragraphs, "--out", tmp_path / "run", "--max-items", "8", "--taps", "hidden,attention", *FAST)
    with planted(place, kind):
        check_looks_like_a_bug(isoscope(*words), kind)


def test_an_error_of_no_file_is_a_bug(good_run):
    with planted("runs.results:Results.table", "OSError"):
        check_looks_like_a_bug(isoscope("table", good_run), "OSError")


def test_tracebacks_of_mistakes_are_shown_on_request(monkeypatch, tmp_path):
    for value, shown in (("0", False), ("1", True)):
        monkeypatch.setenv("ISOSCOPE_DEBUG", value)
        answer = isoscope("table", tmp_path / "nothing")
        assert answer.code == 2
        assert ("Traceback (most recent call last):" in answer.err) == shown
        assert answer.err.splitlines()[-1].startswith("isoscope: ")


@pytest.mark.parametrize("places", ON_THE_PAGE, ids=["parts", "what they share"])
def test_bugs_in_parts_of_a_page(places, good_run, tmp_path):
    kinds = dict(zip(places, KINDS, strict=False))
    with contextlib.ExitStack() as stack:
        for place, kind in kinds.items():
            stack.enter_context(planted(place, kind, f"planted in {place}"))
        answer = isoscope("report", good_run, "--out", tmp_path / "page.html")
    assert answer.code == 1, answer.err
    assert answer.out == f"{tmp_path / 'page.html'}\n"
    assert "Traceback (most recent call last):" in answer.err
    assert answer.err.splitlines()[-1].startswith("isoscope: this is a bug")
    page = html.unescape((tmp_path / "page.html").read_text("utf-8"))
    for place, kind in kinds.items():
        assert re.search(
            f"(because isoscope failed|A bug in isoscope prevented this part): (<code>)?{kind}: '?planted in {re.escape(place)}", page
        ), place
        assert f"planted in {place}" in answer.err, place
    assert 'id="spectrum"' in page  # another figure


def test_a_bug_behind_claims_is_an_outcome_of_its_own(good_run):
    for more in ((), ("--strict",)):
        with planted("claims.evidence:model_rows", "AttributeError"):
            answer = isoscope("claims", good_run, "--json", *more)
        found = json.loads(answer.out)
        failed = [row for row in found if row["outcome"] == "error"]
        assert 10 < len(failed) < len(found)
        assert all(f"AttributeError: {SAID}" in row["said"] for row in failed)
        assert answer.code == 1
        assert f"AttributeError: {SAID}" in answer.err
        assert answer.err.splitlines()[-1].startswith("isoscope: this is a bug")
    with planted("claims.evidence:model_rows", "AttributeError"):
        shown = isoscope("claims", good_run)
    assert shown.code == 1
    assert f", error: This claim could not be decided, because isoscope failed: AttributeError: {SAID}" in shown.out.replace("\n", " ")


@pytest.mark.parametrize(("place", "kind"), list(zip(ELSEWHERE, KINDS, strict=False)))
def test_bugs_in_other_commands(place, kind, good_run, matrix, tmp_path):
    given = {"RUN": good_run, "OUT": tmp_path / "out", "MATRIX": matrix}
    with planted(place, kind):
        check_looks_like_a_bug(isoscope(*(given.get(word, word) for word in ELSEWHERE[place])), kind)


@pytest.mark.parametrize(("place", "kind"), list(zip(REPAIRING, KINDS, strict=False)))
def test_bugs_in_repairs(place, kind):
    from isoscope.repair import Whiten

    x = np.random.default_rng(0).standard_normal((50, 4))
    with planted(place, kind), pytest.raises(getattr(builtins, kind), match=SAID):
        Whiten().fit(x).transform(x)


@pytest.mark.parametrize(("place", "kind"), list(zip(WATCHING, KINDS, strict=False)))
def test_bugs_in_the_first_look_at_a_training(place, kind, tmp_path):
    import torch
    from torch import nn

    import isoscope as package

    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 2)
    watch = package.watch(net, data=[torch.randn(4, 5, 8)], every=1, out=tmp_path / "run")
    with planted(place, kind), pytest.raises(getattr(builtins, kind), match=SAID):
        watch.step()
