"""Runs: what does not determine a cell changes nothing, what is finished is never done again, what is killed goes on."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import isoscope
from isoscope.measuring.cell_identity import cell_identity
from isoscope.measuring.model_feeder import ModelFeeder
from isoscope.measuring.options import Options
from isoscope.measuring.single_pass import Pass
from isoscope.models.naming.model_name import resolve_model
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import key_of
from isoscope.sources import open_source
from tests.runs.packing import pack

ORDER = ["model", "stack", "kind", "layer", "policy", "metric"]
NUMBERS = ["value", "low", "high", "n", "d", "null", "null_sd"]


NEAR = ["two_nn"]
"""A line through the logarithms of ratios near 1, whose last digits are those of the states: it moves several times as much as they do."""


def equal(one, two, *, rel=1e-6, absolute=1e-7, columns=("value",)):
    """Two tables with the same rows; their numbers agree to 1e-6 relative or 1e-7 absolute, those of `NEAR` to 1e-5."""
    one, two = (frame.sort_values(ORDER).reset_index(drop=True) for frame in (one, two))
    pd.testing.assert_frame_equal(one[[*ORDER, "n", "d"]], two[[*ORDER, "n", "d"]])
    for column in columns:
        a, b = one[column].to_numpy(float), two[column].to_numpy(float)
        allowed = np.where(one["metric"].isin(NEAR) & (rel > 0), np.maximum(rel, 1e-5), rel)
        close = np.abs(a - b) <= absolute + allowed * np.abs(b)
        close |= np.isnan(a) & np.isnan(b)
        assert close.all(), one[~close].assign(other=b[~close])[[*ORDER, column, "other"]].head(5).to_string()


@pytest.fixture(scope="module", params=["bert", "t5"])
def whole(request, small_models, texts, tmp_path_factory):
    """A model's folder and the table of one pass."""
    folder = str(small_models(request.param))
    results = isoscope.measure(folder, str(texts), tmp_path_factory.mktemp("whole") / "run", quiet=True, cosine_sd=True)
    return folder, results.table(policy="every")


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_any_batch_size_gives_the_same_table(whole, texts, tmp_path, batch_size):
    folder, table = whole
    again = isoscope.measure(folder, str(texts), tmp_path / "run", quiet=True, cosine_sd=True, batch_size=batch_size).table(policy="every")
    equal(table, again)


@pytest.mark.parametrize("k", [2, 5])
def test_shards_merge_to_one_pass(whole, texts, tmp_path, k):
    """An item is never split between shards; the merged table is that of one pass, its key included."""
    folder, table = whole
    parts = [tmp_path / f"part{i}" for i in range(k)]
    for i, part in enumerate(parts):
        isoscope.measure(folder, str(texts), part, quiet=True, cosine_sd=True, shard=f"{i + 1}/{k}")
    merged = isoscope.merge(parts[::-1], tmp_path / "merged")
    equal(table, merged.table(policy="every"), columns=("value", "low", "high"))
    assert merged.manifests()[0]["key"] == json.loads(table["spec"].iloc[0])["cell"]


def test_what_determines_a_cell_and_nothing_else(small_models, texts):
    reference, source = resolve_model(str(small_models("bert"))), open_source(str(texts))

    def key(**options):
        return key_of(cell_identity(reference, source, Options(**options)))

    assert key() == key(batch_size=2, threads=1, device="cpu", store="rows", save_every=1.0)
    changed = [{"seq_len": 32}, {"dtype": "bfloat16"}, {"layers": "0"}, {"seed": 1}, {"shard": (0, 2)}, {"max_tokens": 9}, {"sample": 7}]
    keys = [key(), *(key(**options) for options in changed), key(split_body=("sink",)), key(cosine_sd=True), key(second_moments="all")]
    assert len(set(keys)) == len(keys)


def test_a_finished_cell_is_never_computed_again(small_models, texts, tmp_path, monkeypatch):
    folder = str(small_models("gpt2"))
    first = isoscope.measure(folder, str(texts), tmp_path / "run", quiet=True).table(policy="every")
    monkeypatch.setattr(Pass, "__init__", lambda *_: pytest.fail("the model was loaded again"))
    equal(first, isoscope.measure(folder, str(texts), tmp_path / "run", quiet=True, batch_size=2).table(policy="every"), rel=0, absolute=0)


def test_a_half_written_cell_is_never_read(small_models, texts, tmp_path):
    folder = str(small_models("gpt2"))
    isoscope.measure(folder, str(texts), tmp_path / "run", quiet=True)
    cell = Run(tmp_path / "run").cells()[0].folder
    (cell / "manifest.json").unlink()
    with pytest.raises(isoscope.IsoscopeError, match="no finished cell"):
        isoscope.open(tmp_path / "run")
    assert len(isoscope.measure(folder, str(texts), tmp_path / "run", quiet=True).table(policy="every")) > 100


STOPPED = {"batch_size": 1, "save_every": 0.0}


def stopped(folder, texts, windows, **others):
    """The key of a cell, how far it got in so many windows, and its statistics."""
    reference, source, chosen = resolve_model(folder), open_source(str(texts)), Options(**(STOPPED | others))
    feeder = ModelFeeder(reference, source, chosen)
    single_pass = Pass(feeder, chosen)
    single_pass.learn(feeder.probe())
    for _, window in zip(range(windows), feeder.windows(), strict=False):
        for batch in window:
            single_pass.reduce(batch)
    return key_of(cell_identity(reference, source, chosen)), feeder.cursor(), pack(single_pass.statistics)


def test_a_saved_state_goes_on_to_the_same_table(small_models, texts, tmp_path):
    """Stopped after any window: the state on disk and the cursor give the table of an uninterrupted pass, bit for bit."""
    folder = str(small_models("llama"))
    expected = isoscope.measure(folder, str(texts), tmp_path / "whole", quiet=True, **STOPPED).table(policy="every")
    for stop in (1, 4):
        run = Run(tmp_path / f"stopped{stop}")
        key, cursor, arrays = stopped(folder, texts, stop)
        run.save_partial(key, cursor, arrays.items)
        equal(
            expected,
            isoscope.measure(folder, str(texts), run.path, quiet=True, **STOPPED).table(policy="every"),
            rel=0,
            absolute=0,
            columns=NUMBERS,
        )
        assert not list((run.path / "partial").iterdir())


@pytest.mark.parametrize("damage", ["a bit", "cut", "not a count", "another word", "another model", "fewer points", "nothing"])
def test_a_state_that_is_not_of_this_cell_is_not_gone_on_from(small_models, texts, tmp_path, damage, capsys):
    """One that is not as it was written, and one that is and does not fit: the cell is measured from its start, to the same table."""
    folder = str(small_models("llama"))
    expected = isoscope.measure(folder, str(texts), tmp_path / "whole", quiet=True, **STOPPED).table(policy="every")
    key, cursor, arrays = stopped(folder, texts, 2)
    if damage == "another model":
        arrays = stopped(str(small_models("bert")), texts, 2)[2]
    elif damage == "fewer points":
        arrays = {name: array[:-1] if "sample.points" in name else array for name, array in arrays.items()}
    elif damage == "nothing":
        arrays = {}
    cursor |= {"not a count": {"items": "2"}, "another word": {"seen": 2}}.get(damage, {})
    run = Run(tmp_path / "run")
    run.save_partial(key, cursor, arrays.items)
    path = run.path / "partial" / f"{key}.safetensors"
    raw = path.read_bytes()
    assert run.load_partial(key) is not None or damage == "not a count"
    if damage == "a bit":
        path.write_bytes(raw[:-1000] + bytes([raw[-1000] ^ 1]) + raw[-999:])
    elif damage == "cut":
        path.write_bytes(raw[:-1000])
    if damage in ("a bit", "cut", "not a count"):
        assert run.load_partial(key) is None
    equal(expected, isoscope.measure(folder, str(texts), run.path, **STOPPED).table(policy="every"), rel=0, absolute=0, columns=NUMBERS)
    said = capsys.readouterr().err
    assert ("starting over" in said) == (damage in ("another word", "another model", "fewer points", "nothing"))
    assert not list((run.path / "partial").iterdir())


def test_max_tokens_cuts_the_source_before_it_is_divided(small_models, texts, tmp_path):
    folder = str(small_models("bert"))  # a causal model's first tokens are duplicates only as far as a processor rounds them alike
    whole = isoscope.measure(folder, str(texts), tmp_path / "whole", quiet=True, max_tokens=1500).table(policy="every")
    tokens = json.loads(whole["spec"].iloc[0])["tokens"]
    assert 1500 <= tokens < 1500 + 64
    parts = [isoscope.measure(folder, str(texts), tmp_path / f"{i}", quiet=True, max_tokens=1500, shard=f"{i}/3").path for i in (1, 2, 3)]
    equal(whole, isoscope.merge(parts, tmp_path / "merged").table(policy="every"))


def test_a_metric_that_was_not_asked_for_is_filled_in(small_models, texts, tmp_path):
    """Rows are a cache: take one metric out of them and the table still has it, the same, without a model."""
    folder = str(small_models("gpt2"))
    table = isoscope.measure(folder, str(texts), tmp_path / "run", quiet=True).table(policy="every")
    cell = Run(tmp_path / "run").cells()[0]
    rows = cell.rows()
    rows[rows["metric"] != "isoscore"].to_parquet(cell.folder / "rows.parquet", index=False)
    manifest = cell.manifest
    manifest["files"]["rows.parquet"]["bytes"] = (cell.folder / "rows.parquet").stat().st_size
    manifest["tried"].remove("isoscore")
    (cell.folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    equal(table, isoscope.open(tmp_path / "run").table(policy="every"), rel=0, absolute=0, columns=NUMBERS)
    filled = isoscope.open(tmp_path / "run").table("isoscore", "body")
    assert set(filled["metric"]) == {"isoscore"}
    assert set(filled["policy"]) == {"body"}


@pytest.mark.parametrize("keep", ["rows", "sums", "all"])
def test_keep_says_what_is_stored(small_models, texts, tmp_path, keep):
    results = isoscope.measure(str(small_models("gpt2")), str(texts), tmp_path / "run", quiet=True, store=keep)
    cell = results.run.cells()[0]
    assert cell.has_statistics == (keep != "rows")
    if cell.has_statistics:
        assert all((s.sample is not None) == (keep == "all") for s in cell.statistics().values())
    assert len(results.table("top_share")) == 6  # the input table, layers 0 to 3, and the state after the final norm


def test_fewer_than_thirty_documents_group_by_sequence(small_models, tmp_path):
    path = tmp_path / "few.txt"
    path.write_text("\n\n".join("the of and to a in that is was it " * (10 + i) for i in range(12)), "utf-8")
    table = isoscope.measure(str(small_models("bert")), str(path), tmp_path / "run", quiet=True).table("between_cosine", "all")
    assert json.loads(table["spec"].iloc[1])["unit"] == "sequence"
    assert table["low"].notna().all()


def test_splits_are_parts_of_the_body(small_models, texts, tmp_path):
    """Every mark is a policy; the parts' points add up to the body's."""
    folder = str(small_models("gpt2"))
    results = isoscope.measure(folder, str(texts), tmp_path / "run", quiet=True, split_body=("frequency", "position"))
    table = results.table("mean_norm", "every").query("kind == 'hidden' and layer == 1").set_index("policy")
    for mark in ("frequency", "position"):
        parts = table[table.index.str.startswith(mark)]
        assert parts["n"].sum() == table.loc["body", "n"]
        assert float((parts["value"] * parts["n"]).sum() / parts["n"].sum()) == pytest.approx(table.loc["body", "value"], rel=1e-9)
    assert {"position-1", "position-2-3", "position-32-63"} <= set(table.index)
    plain = isoscope.measure(folder, str(texts), tmp_path / "plain", quiet=True).table(policy="every")
    split = results.table(policy="every")
    equal(plain, split[split["policy"].isin(["all", "no-special", "body"])])


def test_sinks_are_split_off_by_their_norm(small_models, texts, tmp_path):
    """One token whose embedding is enormous: its positions, and no others, are the sink slice of layer 0."""
    import shutil

    from safetensors.numpy import load_file, save_file

    folder = tmp_path / "sinky"
    shutil.copytree(small_models("gpt2"), folder)
    weights = load_file(folder / "model.safetensors")
    weights["transformer.wte.weight"] = weights["transformer.wte.weight"].copy()
    weights["transformer.wte.weight"][5] *= 60  # "the"
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    table = isoscope.measure(str(folder), str(texts), tmp_path / "run", quiet=True, split_body=("sink",), layers="0").table(
        "mean_norm", "every"
    )
    at = table.set_index("policy")
    expected = 0
    for item in open_source(str(texts)).items():
        words = item.content.split()
        for start in range(0, len(words), 64):
            expected += sum(word == "the" for word in words[start + 1 : start + 64])
    assert at.loc["sink", "n"] == expected
    assert at.loc["sink", "n"] + at.loc["body-no-sink", "n"] == at.loc["body", "n"]
    assert at.loc["sink", "value"] > 10 * at.loc["body-no-sink", "value"]


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_at_random_instants(times, small_models, texts, tmp_path):
    """kill -9 whenever it likes; then the same command gives the table of an undisturbed run."""
    folder, out = str(small_models("bert")), tmp_path / "run"
    options = {"batch_size": 1, "save_every": 0.0}
    expected = isoscope.measure([folder, f"untrained:{folder}"], str(texts), tmp_path / "whole", quiet=True, **options).table(
        policy="every"
    )
    code = (
        f"import isoscope; isoscope.measure({[folder, 'untrained:' + folder]!r}, {str(texts)!r}, {str(out)!r}, quiet=True, **{options!r})"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", code.replace(str(out), str(tmp_path / "timed"))], check=True, env=environment)
    typical = time.monotonic() - started
    chance = random.Random(0)
    for _ in range(times):
        process = subprocess.Popen([sys.executable, "-c", code], env=environment)
        try:
            process.wait(chance.uniform(0.3, 1.0) * typical)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    equal(expected, isoscope.open(out).table(policy="every"), columns=NUMBERS)
    assert not [path for path in (out / "cells").iterdir() if not (path / "manifest.json").exists() and not path.name.startswith(".")]
