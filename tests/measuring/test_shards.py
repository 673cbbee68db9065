"""Sources of every kind, in any number of shards, merged in any tree: the table is that of one pass."""

import json

import pandas as pd
import pytest

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.core.progress import Progress
from isoscope.measuring import measure as measure_file
from isoscope.measuring import merge_tree, model_feeder, task
from isoscope.measuring.merge_tree import order_of_work, plan_merges
from isoscope.measuring.options import Options
from isoscope.measuring.task import Sources, Task, run_task
from isoscope.models.naming.model_name import resolve_model
from isoscope.runs.run import Run
from tests.measuring.test_measure import equal

FEW = {"layers": "1,3", "sample": 300, "cosine_sd": True, "threads": 1, "quiet": True}
KINDS = ("text", "jsonl", "parquet", "folder")


@pytest.fixture(scope="module")
def corpora(texts, tmp_path_factory):
    """The paragraphs of the tests as text, as lines, as row groups, and as a folder of all three."""
    folder = tmp_path_factory.mktemp("corpora")
    paragraphs = texts.read_text("utf-8").split("\n\n")
    paths = {"text": folder / "a.txt", "jsonl": folder / "a.jsonl", "parquet": folder / "a.parquet", "folder": folder / "all"}
    paths["text"].write_text("\r\n\r\n".join(paragraphs) + "\r\n", "utf-8", newline="")
    paths["jsonl"].write_text("".join(json.dumps({"text": one}) + "\n" for one in paragraphs), "utf-8")
    pd.DataFrame({"text": paragraphs}).to_parquet(paths["parquet"], row_group_size=7)
    (paths["folder"] / "deep").mkdir(parents=True)
    for i in range(5):
        (paths["folder"] / "deep" / f"{i}.txt").write_text("\n\n".join(paragraphs[4 * i : 4 * i + 4]), "utf-8")
    (paths["folder"] / "b.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in paragraphs[20:50]), "utf-8")
    pd.DataFrame({"text": paragraphs[50:]}).to_parquet(paths["folder"] / "c.parquet", row_group_size=7)
    return paths


@pytest.fixture(scope="module")
def whole(small_models, corpora, tmp_path_factory):
    """`whole(kind)`: the run of one pass over a kind of source."""
    made = {}

    def make(kind):
        if kind not in made:
            folder = tmp_path_factory.mktemp("whole") / kind
            made[kind] = isoscope.measure(str(small_models("bert")), str(corpora[kind]), folder, **FEW)
        return made[kind]

    return make


def same(whole, other):
    equal(whole.table(policy="every"), other.table(policy="every"), columns=("value", "low", "high"))
    assert [cell["key"] for cell in other.manifests()] == [cell["key"] for cell in whole.manifests()]
    specs = [{**cell["spec"], "cell": None} for run in (whole, other) for cell in run.manifests()]
    assert specs[0] == specs[1], "documents, tokens and the fingerprint are those of one pass"


@pytest.mark.parametrize("kind", KINDS)
def test_merged_shards_of_every_kind_equal_one_pass(small_models, corpora, whole, tmp_path, kind):
    model = str(small_models("bert"))
    parts = [isoscope.measure(model, str(corpora[kind]), tmp_path / f"{i}", shard=f"{i}/3", **FEW).path for i in (1, 2, 3)]
    same(whole(kind), isoscope.merge(parts[::-1], tmp_path / "merged"))
    counts = [isoscope.open(part).manifests()[0]["spec"]["documents"] for part in parts]
    assert sum(counts) == 80
    assert sorted(counts)[1] > 10, "at least two shards have their share; the footer of a small Parquet file takes that of the third"


def test_partial_merges_in_any_tree_equal_one_pass(small_models, corpora, whole, tmp_path):
    model, k = str(small_models("bert")), 7
    parts = [isoscope.measure(model, str(corpora["text"]), tmp_path / f"{i}", shard=f"{i}/{k}", **FEW).path for i in range(1, k + 1)]
    first = isoscope.merge([parts[5], parts[0], parts[2]], tmp_path / "a", partial=True)
    assert first.manifests()[0]["spec"]["shard"] == "3 of 7"
    assert first.table(policy="every").empty, "tables come with the last merge"
    second = isoscope.merge([first.path, parts[1]], tmp_path / "b", partial=True)
    assert second.manifests()[0]["identity"]["shards"] == [0, 1, 2, 5]
    with pytest.raises(IsoscopeError, match=r"The shards 4/7, 5/7, 7/7 of small-bert are missing; .* --partial"):
        isoscope.merge([second.path], tmp_path / "c")
    other = isoscope.merge([parts[3], parts[4], parts[6]], tmp_path / "d", partial=True)
    # A shard that a merged cell holds already counts once.
    same(whole("text"), isoscope.merge([other.path, parts[1], second.path, first.path], tmp_path / "e"))
    overlapping = isoscope.merge([parts[0], parts[3]], tmp_path / "f", partial=True)
    with pytest.raises(IsoscopeError, match=r"Shard 1/7 of small-bert is in two merged cells"):
        isoscope.merge([second.path, overlapping.path], tmp_path / "g", partial=True)


def test_more_shards_than_records_merge_as_a_tree(small_models, texts, tmp_path):
    """Twelve paragraphs in forty shards: most are empty, and groups of sixteen are merged by the executor."""
    short = tmp_path / "short.txt"
    short.write_text("\n\n".join(texts.read_text("utf-8").split("\n\n")[:12]), "utf-8")
    model, few = str(small_models("bert")), FEW | {"layers": "1"}
    one = isoscope.measure(model, str(short), tmp_path / "one", **few)
    many = isoscope.measure(model, str(short), tmp_path / "many", split_into=40, processes=2, **few)
    same(one, many)
    assert len(many.manifests()[0]["merged"]) == 3, "two groups of sixteen and one of eight"
    assert not Run(tmp_path / "many" / "parts").cells()


def test_an_empty_shard_is_measured_by_itself(small_models, tmp_path):
    (tmp_path / "a.txt").write_text("the of and to a in " * 20 + "\n\nthat is was it", "utf-8")
    model, few = str(small_models("bert")), FEW | {"layers": "1"}
    parts = [isoscope.measure(model, str(tmp_path / "a.txt"), tmp_path / f"{i}", shard=f"{i}/4", **few) for i in (1, 2, 3, 4)]
    documents = [part.manifests()[0]["spec"]["documents"] for part in parts]
    assert documents == [1, 0, 0, 1]
    assert [part.table(policy="every").empty for part in parts] == [False, True, True, False]
    merged = isoscope.merge([part.path for part in parts], tmp_path / "merged")
    same(isoscope.measure(model, str(tmp_path / "a.txt"), tmp_path / "whole", **few), merged)


def test_shards_of_data_that_changed_are_refused(small_models, corpora, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(corpora["text"].read_bytes())
    model, few = str(small_models("bert")), FEW | {"layers": "1", "sample": 0}
    one = isoscope.measure(model, str(path), tmp_path / "1", shard="1/2", **few)
    raw = bytearray(path.read_bytes())
    raw[:3] = b"xyz"
    path.write_bytes(raw)
    two = isoscope.measure(model, str(path), tmp_path / "2", shard="2/2", **few)
    with pytest.raises(IsoscopeError, match=r"The data of small-bert changed between the shards"):
        isoscope.merge([one.path, two.path], tmp_path / "merged")


def test_shards_that_another_command_deleted_are_not_merged_without(corpora, small_models, tmp_path):
    run = Run(tmp_path)
    task = Task.create(run, resolve_model(str(small_models("bert"))), Sources((str(corpora["text"]),), None, ()), Options())
    merging = Task.merging([task.create_shard(run, i, 9) for i in range(2)])
    with pytest.raises(IsoscopeError, match=r"2 of 2 shards of small-bert were deleted from .* run the same command again"):
        run_task(merging, Progress(quiet=True))


def test_shards_that_cannot_be_merged_stop_no_other_model(corpora, small_models, tmp_path, monkeypatch):
    merge_shards, few = measure_file.merge_shards, FEW | {"layers": "1", "processes": 1, "split_into": 2}

    def merge(run, cells, **more):
        if cells[0].manifest["columns"]["model"] == "small-bert":
            raise IsoscopeError("The data changed.")
        return merge_shards(run, cells, **more)

    monkeypatch.setattr(measure_file, "merge_shards", merge)
    models = [str(small_models(name)) for name in ("bert", "gpt2")]
    for again in (False, True):  # the second time, all shards of the first model are there
        with pytest.raises(IsoscopeError, match=r"The data changed\.$"):
            isoscope.measure(models[0], str(corpora["text"]), tmp_path, **few)
        if again:
            with pytest.raises(IsoscopeError, match=r"1 of 2 models were measured\. .*small-bert: The data changed\.$"):
                isoscope.measure(models, str(corpora["text"]), tmp_path, **few)
    assert [cell["columns"]["model"] for cell in isoscope.open(tmp_path).manifests()] == ["small-gpt2"]
    monkeypatch.undo()
    isoscope.measure(models, str(corpora["text"]), tmp_path, **few)
    assert len(isoscope.open(tmp_path).manifests()) == 2


def test_a_merge_that_runs_out_of_memory_is_a_user_error(corpora, small_models, tmp_path, monkeypatch):
    def merge(*given, **more):
        raise MemoryError

    monkeypatch.setattr(merge_tree.plan_merges, "__defaults__", (2,))
    monkeypatch.setattr(measure_file, "FAN_IN", 2)
    monkeypatch.setattr(task, "merge_shards", merge)
    with pytest.raises(IsoscopeError, match=r"^small-bert needs more memory than there is"):
        isoscope.measure(str(small_models("bert")), str(corpora["text"]), tmp_path, split_into=4, **FEW | {"layers": "1", "processes": 1})


def test_no_model_stays_in_memory_after_the_last_shard(corpora, small_models, tmp_path):
    isoscope.measure(str(small_models("bert")), str(corpora["text"]), tmp_path, split_into=2, processes=1, **FEW | {"layers": "1"})
    assert not model_feeder._held


def test_a_tree_is_resumed_where_it_was_stopped(small_models, corpora, whole, tmp_path, monkeypatch):
    """Shards that were merged and deleted are not measured again."""
    expected = whole("text")  # measured before calls are counted
    for file in (merge_tree, measure_file):
        monkeypatch.setattr(file, "FAN_IN", 2)
    monkeypatch.setattr(merge_tree.plan_merges, "__defaults__", (2,))
    monkeypatch.setattr(merge_tree.order_of_work, "__defaults__", (2,))
    measured, merged, measure_model, merge_shards = [], [], task.measure_model, task.merge_shards

    def measure(run, reference, source, options, *given, **more):
        measured.append(options.shard[0])
        measure_model(run, reference, source, options, *given, **more)

    def merge(run, cells, **more):
        merged.append(len(cells))
        if len(merged) == 3:
            raise KeyboardInterrupt
        return merge_shards(run, cells, **more)

    monkeypatch.setattr(task, "measure_model", measure)
    monkeypatch.setattr(task, "merge_shards", merge)
    given = (str(small_models("bert")), str(corpora["text"]), tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        isoscope.measure(*given, split_into=8, processes=1, **FEW)
    same(expected, isoscope.measure(*given, split_into=8, processes=1, **FEW))
    assert sorted(measured) == list(range(8)), "each once"
    assert merged == [2, 2, 2, 2, 2, 2, 2], "the third was stopped and done again; the last two cells were merged by the command itself"


def test_the_order_of_a_tree(corpora, small_models, tmp_path):
    run = Run(tmp_path)
    task = Task.create(run, resolve_model(str(small_models("bert"))), Sources((str(corpora["text"]),), None, ()), Options())
    shards = [task.create_shard(run, i, 9) for i in range(9)]
    roots = plan_merges(shards, 2)
    assert len(roots) == 2
    assert [node.task.identity.get("shards", [node.task.identity["shard"][0]]) for node in roots] == [[0, 1, 2, 3, 4, 5, 6, 7], [8]]
    order = order_of_work(roots, 2)
    assert sum(not node.children for node in order) == 9
    places = {node.task.key: i for i, node in enumerate(order)}
    assert all(places[child.task.key] < places[node.task.key] for node in order for child in node.children)
    first = next(i for i, node in enumerate(order) if node.children)
    assert sum(not node.children for node in order[:first]) == 3, "the first pair is merged when the next shard is under way"
    assert [len(root.children) for root in plan_merges(shards, 16)] == [0] * 9
