"""The same cells by one process, by two and by a cluster: equal tables, whoever computed; shards merge by themselves."""

import re
import sys
import threading
import time

import pytest

import isoscope
from isoscope.runs.run import Run
from tests.cli.calling import isoscope as call
from tests.measuring.sweeps import FEW, same
from tests.measuring.test_measure import equal as nearly
from tests.patience import wait_until


@pytest.mark.slow
def test_two_processes_give_the_table_of_one(berts, text, expected, tmp_path):
    same(expected, isoscope.sweep(str(berts), text, tmp_path / "run", processes=2, **FEW).table(policy="every"))


@pytest.mark.slow
def test_a_cluster_of_three_nodes_gives_the_table_of_one_process_though_a_node_is_lost(three_nodes, berts, text, expected, tmp_path):
    import ray

    cluster, others = three_nodes
    same(expected, isoscope.sweep(str(berts), text, tmp_path / "all", executor="ray", **FEW).table(policy="every"))

    def lose() -> None:
        while not list((tmp_path / "lost").glob("cells/[!.]*/manifest.json")):
            time.sleep(0.01)
        cluster.remove_node(others[0], allow_graceful=False)

    losing = threading.Thread(target=lose)
    losing.start()
    same(expected, isoscope.sweep(str(berts), text, tmp_path / "lost", executor="ray", **FEW).table(policy="every"))
    losing.join()
    wait_until(lambda: sum(node["Alive"] for node in ray.nodes()) == 2, "the node to be lost", pause=0.2)
    nearly(
        isoscope.measure(str(berts / "seed-0" / "step-2"), text, tmp_path / "whole", **FEW).table(policy="every"),
        isoscope.measure(str(berts / "seed-0" / "step-2"), text, tmp_path / "shards", executor="ray", split_into=3, **FEW).table(
            policy="every"
        ),
    )


@pytest.mark.slow
def test_a_cluster_that_is_started_here_and_ends_with_the_command(berts, text, expected, tmp_path):
    import ray

    found = isoscope.sweep(str(berts), text, tmp_path / "run", seeds="0", steps="0,2", executor="ray", processes=1, **FEW)
    same(expected.query("seed == 0 and step in (0, 2) and metric == 'mean_cosine'"), found.table("mean_cosine", "every"))
    assert not ray.is_initialized()


def test_models_and_shards_side_by_side_give_the_table_of_one_process(small_models, texts, tmp_path):
    few = {"layers": "1", "sample": 64, "quiet": True, "threads": 1}
    models = [str(small_models("bert")), str(small_models("gpt2"))]
    one = isoscope.measure(models, str(texts), tmp_path / "one", processes=1, **few)
    two = isoscope.measure(models, str(texts), tmp_path / "two", processes=2, split_into=2, **few)
    nearly(one.table(policy="every"), two.table(policy="every"), columns=("value", "low", "high"))
    assert {one["key"] for one in one.manifests()} == {two["key"] for two in two.manifests()}
    assert not Run(tmp_path / "two" / "parts").cells()


@pytest.mark.parametrize("keep", ["rows", "sums"])
def test_shards_that_hold_nothing_and_a_run_that_keeps_less(small_models, tmp_path, keep):
    """Three documents and one sequence of tokens: two of the three shards are empty, and the table is that of one pass."""
    short = tmp_path / "short.txt"
    short.write_text("the of and to a in\n\nthat is was it for with\n\nas his on be at by", "utf-8")
    few = {"max_tokens": 4, "store": keep, "quiet": True, "threads": 1}
    model = str(small_models("gpt2"))
    whole = isoscope.measure(model, str(short), tmp_path / "whole", **few)
    parts = isoscope.measure(model, str(short), tmp_path / "parts", split_into=3, processes=1, **few)
    nearly(whole.table(policy="every"), parts.table(policy="every"))
    assert parts.manifests()[0]["keep"] == keep


def test_shards_of_a_command_that_was_stopped_are_not_measured_again(small_models, texts, tmp_path, monkeypatch):
    from isoscope.measuring import task

    measure_model, seen = task.measure_model, []

    def stopped(run, reference, source, options, *given, **more):
        seen.append(options.shard)
        if len(seen) == 2:
            raise KeyboardInterrupt
        measure_model(run, reference, source, options, *given, **more)

    monkeypatch.setattr(task, "measure_model", stopped)
    few = {"layers": "1", "sample": 0, "split_into": 3, "processes": 1, "quiet": True}
    with pytest.raises(KeyboardInterrupt):
        isoscope.measure(str(small_models("bert")), str(texts), tmp_path / "run", **few)
    results = isoscope.measure(str(small_models("bert")), str(texts), tmp_path / "run", **few)
    assert seen == [(0, 3), (1, 3), (1, 3), (2, 3)]
    assert len(results.manifests()) == 1


def test_a_plan_says_what_there_is_to_do_and_does_nothing(small_models, berts, texts, text, tmp_path):
    model, other = str(small_models("bert")), str(small_models("gpt2"))
    options = ["--data", texts, "--out", tmp_path / "run", "--layers", 1, "--sample", 0, "--max-items", 40]
    side = ["--split-into", 4, "--processes", 2, "--dry-run"]
    said = call("measure", model, other, *options, *side).worked().out.splitlines()
    assert said[0].startswith("small-bert: 4 shards of paragraphs.txt, 40 items, ")
    guess = r"about \d+ (s|min), a guess from the sizes of models and sources"
    assert re.fullmatch(f"8 of 8 cells to measure, 2 at a time, {guess}", said[2])
    assert not (tmp_path / "run").exists()
    call("measure", model, *options, "-q").worked()
    said = call("measure", model, other, *options, *side).worked().out.splitlines()
    assert "measured already" in said[0]
    assert "on disk" in said[1]
    assert said[2].startswith("4 of 8 cells to measure, 2 at a time")
    swept = call("sweep", berts, "--data", text, "--out", tmp_path / "sweep", "--dry-run").worked().out.splitlines()
    assert swept[0].startswith("berts: 8 checkpoints, 0 measured already; about 1.1 GB of memory per process, ")
    assert re.fullmatch(f"8 of 8 cells to measure, {guess.replace(',', ' in one process,', 1)}", swept[1])


def test_what_cannot_be_asked_for_is_said(small_models, tmp_path, monkeypatch):
    model, out = small_models("bert"), ["--out", tmp_path / "run"]
    call("measure", model, "--executor", "rya", *out).refused("--executor takes local or ray; got 'rya', did you mean ray?")
    call("measure", model, "--address", "auto", *out).refused("--address is of a Ray cluster; add --executor ray")
    call("measure", model, "--split-into", 0, *out).refused("--split-into takes 1 or more; got 0")
    call("measure", model, "--split-into", 2, "--shard", "1/2", *out).refused("name one of the two")
    call("measure", model, "--executor", "ray", "--data", "-", *out).refused("Standard input is here and not on the nodes")
    call("measure", model, "--device-map", "atuo", "-q", *out).refused("--device-map takes auto", "did you mean auto?")
    monkeypatch.setitem(sys.modules, "ray", None)
    call("measure", model, "--executor", "ray", *out).refused("--executor ray needs the package ray: pip install 'isoscope[ray]'.")


DISK = '{"model.embed_tokens": "cpu", "model.layers.0": "cpu", "model.layers.1": "disk", "model.layers.2": "disk", "model.norm": "cpu", \
"model.rotary_emb": "cpu", "lm_head": "disk"}'


@pytest.mark.parametrize("spread", ["auto", DISK])
def test_a_model_that_is_spread_over_memory_and_disk_gives_the_table_of_one_device(small_models, texts, tmp_path, spread):
    few = {"sample": 0, "quiet": True, "threads": 1, "max_tokens": 300, "batch_size": 4}  # batches of other shapes round otherwise
    model = str(small_models("llama"))
    one = isoscope.measure(model, str(texts), tmp_path / "one", **few)
    two = isoscope.measure(model, str(texts), tmp_path / "two", device_map=spread, **few)
    same(one.table(policy="every"), two.table(policy="every"))


def test_memory_that_runs_out_is_tried_once_more_with_half_the_batch(small_models, texts, tmp_path, monkeypatch):
    from isoscope.measuring import task

    measure_model, seen = task.measure_model, []

    def hungry(run, reference, source, options, *given, **more):
        seen.append(options.batch_size)
        if options.batch_size > limit:
            raise MemoryError
        measure_model(run, reference, source, options, *given, **more)

    monkeypatch.setattr(task, "measure_model", hungry)
    few = {"layers": "1", "sample": 0, "quiet": True, "batch_size": 8}
    limit = 4
    assert len(isoscope.measure(str(small_models("bert")), str(texts), tmp_path / "run", **few).manifests()) == 1
    assert seen == [8, 4]
    limit = 2
    with pytest.raises(isoscope.IsoscopeError, match="small-gpt2 needs more memory than there is"):
        isoscope.measure(str(small_models("gpt2")), str(texts), tmp_path / "run", **few)
    assert seen == [8, 4, 8, 4]
