"""A short round of damaged files in every test, and five minutes of it in `make test-all`; and what earlier rounds found."""

import json
import os
import shutil
import time

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.sources.arrays import open_array
from tests.hostile.commands import COMPUTING, READERS, command, jobs, lines
from tests.hostile.fuzz import NAMED, fuzz, one_case
from tests.hostile.mutate import mutated, mutated_json
from tests.hostile.targets import _fit, _forget_derived


@pytest.fixture
def cell(seeds, tmp_path):
    """The folder of the only cell of a run, `run`, that may be spoilt."""
    shutil.copytree(seeds / "run", tmp_path / "run")
    (found,) = (tmp_path / "run" / "cells").iterdir()
    return found


def test_the_same_seed_gives_the_same_damage():
    import random

    raw = bytes(range(256)) * 8
    assert mutated(raw, random.Random(5)) == mutated(raw, random.Random(5))
    assert sum(mutated(raw, random.Random(i)) != raw for i in range(100)) > 90
    value = {"a": [1, {"b": "c"}], "d": None}
    assert repr(mutated_json(value, random.Random(7))) == repr(mutated_json(value, random.Random(7)))
    assert value == {"a": [1, {"b": "c"}], "d": None}


def test_damaged_files_are_answered_or_refused(seeds):
    counts, finds = fuzz(8, 0, seeds)
    assert not finds
    assert {name.partition(" ")[0] for name in counts} == set(NAMED)


@pytest.mark.slow
def test_five_minutes_of_damaged_files(seeds):
    counts, finds = fuzz(300, int(os.environ.get("ISOSCOPE_FUZZ_SEED", time.time() // 3600)) % 1_000_000, seeds)
    assert not finds
    assert sum(counts.values()) > 500


def test_a_find_is_one(seeds, monkeypatch):
    """What is no sentence is reported, with its place; else a quiet round would mean nothing."""

    def broken(seeds, work, chance):
        json.loads("{")

    monkeypatch.setitem(NAMED, "broken", broken)
    assert one_case("broken", 1, seeds).startswith("JSONDecodeError: ")


PLANTED = {"__name__": "isoscope.planted"}


exec("def broken(*given):\n    return None + len(given)", PLANTED)  # a bug, as a line of isoscope's would have it


@pytest.mark.parametrize(
    "place", ["mistake_in_table", "read_arrow_table", "mistake_in_statistics", "group_by_site", "mistake_in_manifest", "read_json"]
)
def test_a_bug_in_a_reader_is_a_find(seeds, tmp_path, monkeypatch, place):
    """Whether it comes through, or whoever calls it takes it for damage and says so."""
    import isoscope.runs.stored_cell

    monkeypatch.setattr(isoscope.runs.stored_cell, place, PLANTED["broken"])

    def whole(seeds, work, chance):
        isoscope.open(seeds / "run").table(["gride"])

    def told(seeds, work, chance):
        command(["table", str(seeds / "run"), "--metric", "gride"], work)

    monkeypatch.setitem(NAMED, "whole", whole)
    monkeypatch.setitem(NAMED, "told", told)
    assert "TypeError" in one_case("whole", 1, seeds)
    assert "TypeError" in one_case("told", 1, seeds)


@pytest.mark.parametrize("end", ["from error", "from None", ""])
def test_a_bug_behind_a_refusal_is_a_find(seeds, monkeypatch, end):
    from isoscope.core.errors import IsoscopeError

    space = {"broken": PLANTED["broken"], "IsoscopeError": IsoscopeError}
    body = f"    try:\n        broken()\n    except TypeError as error:\n        raise IsoscopeError('The file is damaged.') {end}"
    exec(f"def target(seeds, work, chance):\n{body}", space)
    monkeypatch.setitem(NAMED, "hiding", space["target"])
    assert one_case("hiding", 1, seeds).startswith("The file is damaged. hides TypeError: ")


def _each_once(*lines):
    """The lists name some commands twice, since each is drawn from as often as it stands in them."""
    return map(list, dict.fromkeys(map(tuple, lines)))


def test_what_is_spoilt_is_taken_while_it_is_whole(seeds, tmp_path):
    """A command that refuses what it is given anyway would be quiet whatever is spoilt."""
    for name in ("run", "other"):
        shutil.copytree(seeds / "trained" / "run", tmp_path / name)
    assert [line for line in _each_once(*READERS, *COMPUTING) if command(line, tmp_path) != 0] == []
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {"layer_profile", "spectrum", "training_geometry"}
    *whole, _, _ = lines(seeds)
    assert [line for line in _each_once(*whole, *jobs(seeds)) if command(line, tmp_path) != 0] == []


def test_lines_of_a_ledger_of_another_form_are_ignored(tmp_path):
    from isoscope.measuring.sweep_log import Ledger

    seen = {"seed": None, "step": 0, "tensors": "", "matrices": "", "problem": "", "spec": "x", "revision": "y"}
    lines = [1.5, [], {"suite": "a", "place": "-/0", "seen": {"seed": None}}, {"suite": "a", "place": "-/0", "seen": seen | {"step": "0"}}]
    lines += [{"suite": "a", "place": 3, "seen": seen}, {"suite": "a", "faults": "none"}, {"claimed": 3}, {"released": "b"}]
    (tmp_path / "audit.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in [*lines, {"claimed": "c"}]))
    assert Ledger(tmp_path).read() == {"suites": {}, "downloaded": ["c"]}


@pytest.mark.parametrize(("column", "value"), [("n", "many"), ("policy", None), ("metric", None)])
def test_a_column_of_another_type(cell, tmp_path, column, value):
    import pandas as pd

    from isoscope.runs.results import Results

    frame = pd.read_parquet(cell / "rows.parquet")
    frame[column] = value
    frame.to_parquet(cell / "rows.parquet")
    _fit(cell / "rows.parquet")
    with pytest.raises(IsoscopeError, match=r"rows\.parquet is damaged"):
        Results(tmp_path / "run").table(policy="every")


@pytest.mark.parametrize(
    "change",
    [
        {"tried": True},
        {"tried": [["a"]]},
        {"seconds": []},
        {"seconds": 10**400},
        {"memory": -1},
        {"spec": {"documents": "many"}},
        {"spec": {"tokens": 10**30}},
        {"spec": {"data": ["a"]}},
        {"columns": {"model": "a", "step": 10**30}},
        {"columns": {"model": None}},
        {"identity": {"shard": 3}},
    ],
)
def test_a_manifest_with_values_of_another_kind(cell, tmp_path, change):
    from isoscope.runs.results import Results
    from isoscope.runs.stored_cell import seal_manifest

    path = cell / "manifest.json"
    path.write_text(seal_manifest(json.loads(path.read_text()) | change))
    with pytest.raises(IsoscopeError, match=r"manifest\.json is damaged"):
        Results(tmp_path / "run").table(policy="every")


def test_an_archive_whose_member_has_no_name(tmp_path):
    import zipfile

    from isoscope.sources import open_source

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a", "<mediawiki>")
    raw = bytearray((tmp_path / "a.zip").read_bytes())
    at = raw.index(b"PK\x01\x02")
    raw[at + 28 : at + 30] = b"\0\0"
    (tmp_path / "a.zip").write_bytes(raw)
    with pytest.raises(IsoscopeError, match=r"a\.zip"):
        open_source(str(tmp_path / "a.zip"))


def test_a_shard_that_does_not_say_what_it_measured(cell, tmp_path):
    from isoscope.runs.merging import merge_shards
    from isoscope.runs.run import Run
    from isoscope.runs.stored_cell import seal_manifest

    path = cell / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["spec"]["documents"]
    path.write_text(seal_manifest(manifest))
    with pytest.raises(IsoscopeError, match="does not say how many documents it measured; delete"):
        merge_shards(Run(tmp_path / "merged"), Run(tmp_path / "run").cells())


def test_a_cell_that_does_not_say_which_shard_it_is_stands_alone(cell, tmp_path):
    from isoscope.runs.merging import merge
    from isoscope.runs.stored_cell import seal_manifest

    path = cell / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["identity"]["shard"]
    path.write_text(seal_manifest(manifest))
    assert len(merge([tmp_path / "run"], tmp_path / "merged").manifests()) == 1


def test_text_that_is_no_text(cell, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from isoscope.runs.results import Results

    path = cell / "rows.parquet"
    table = pq.read_table(path)
    spoilt = pa.array([b"\xff\xfe"] * len(table), pa.binary()).view(pa.string())
    pq.write_table(table.set_column(table.schema.get_field_index("family"), "family", spoilt), path)
    _fit(path)
    with pytest.raises(IsoscopeError, match=r"rows\.parquet is damaged"):
        Results(tmp_path / "run").table(policy="every")


def test_the_home_of_nobody():
    from isoscope.models.naming.model_name import resolve_model

    with pytest.raises(IsoscopeError, match="There is no folder ~nobody-of-this-name/x"):
        resolve_model("~nobody-of-this-name/x")


def test_a_cell_that_does_not_say_what_is_cited(cell, tmp_path):
    from isoscope.runs.citation import citation
    from isoscope.runs.results import Results
    from isoscope.runs.stored_cell import seal_manifest

    path = cell / "manifest.json"
    path.write_text(seal_manifest(json.loads(path.read_text()) | {"spec": {"data": "a"}}))
    with pytest.raises(IsoscopeError, match="does not say its documents; measure it again"):
        citation(Results(tmp_path / "run"))


def test_a_source_without_a_name_does_not_go_through_the_machine():
    from isoscope.sources import open_source

    with pytest.raises(IsoscopeError, match="The name of a source is empty"):
        open_source("")


@pytest.mark.parametrize(
    "change",
    [
        {"identity": {"checkpoint": 3}},
        {"identity": {"checkpoint": {"suite": ["many"], "step": 0, "seed": 0}}},
        {"identity": {"checkpoint": {"suite": "many", "seed": {}}}},
        {"columns": {"model": "many"}},
    ],
)
def test_a_sweep_into_a_run_whose_cells_say_little_measures_them_again(seeds, tmp_path, change):
    from isoscope.runs.stored_cell import seal_manifest
    from tests.measuring.many_cells import sweep

    shutil.copytree(seeds / "swept" / "run", tmp_path / "run")
    for path in (tmp_path / "run" / "cells").glob("*/manifest.json"):
        path.write_text(seal_manifest(json.loads(path.read_text()) | change))
    swept = sweep(seeds / "swept" / "suite" / "many", seeds / "swept" / "data.txt", tmp_path / "run")
    assert swept.scheduler.succeeded == 4


SETTINGS = {
    "[1]": "the settings of a row are no object",
    "[" * 100_000: "the settings of a row are no JSON: it is nested too deeply",
    '{"note": {"a": 1}, "verdict": []}': "the note of a row is {'a': 1}",
    "no JSON": "the settings of a row are no JSON: Expecting value",
}


@pytest.mark.parametrize("spec", SETTINGS, ids=["a list", "deep", "types", "no JSON"])
@pytest.mark.parametrize("line", [["report", "run"], ["claims", "run"], ["compare-definitions", "run"], ["table", "run"]])
def test_settings_of_rows_that_nobody_wrote_are_refused(cell, tmp_path, spec, line):
    import pandas as pd

    frame = pd.read_parquet(cell / "rows.parquet")
    frame["spec"] = spec
    frame.to_parquet(cell / "rows.parquet")
    _fit(cell / "rows.parquet")
    command(line, tmp_path, 2, f"rows.parquet is damaged ({SETTINGS[spec]}")


@pytest.mark.parametrize("line", [["report", "run"], ["claims", "run"], ["compare-definitions", "run"], ["table", "run"]])
def test_settings_of_rows_may_be_those_of_another_version(cell, tmp_path, line):
    """Rows written by another version may carry settings this one does not know; the page must still be drawn."""
    import pandas as pd

    frame = pd.read_parquet(cell / "rows.parquet")
    frame["spec"] = '{"note": null, "d": "x", "heads": 0, "tokens": "many", "new": [{"a": 1}]}'
    frame.to_parquet(cell / "rows.parquet")
    _fit(cell / "rows.parquet")
    command(line, tmp_path, 0)


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ("stack", "is damaged (a row has no stack)"),
        ("layer", "has the layer None)"),
        ("head", ""),
        ("model", "is damaged (a row has no model)"),
        ("d", "has the d None)"),
    ],
)
def test_a_page_of_rows_that_do_not_say_where_they_are_from(seeds, tmp_path, column, sentence):
    import pandas as pd

    shutil.copytree(seeds / "trained" / "run", tmp_path / "run")
    for path in (tmp_path / "run" / "cells").glob("*/rows.parquet"):
        frame = pd.read_parquet(path)
        frame[column] = pd.Series([None] * len(frame), dtype=frame[column].dtype)
        frame.to_parquet(path)
        _fit(path)
    command(["report", "run"], tmp_path, 2 if sentence else 0, sentence)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_that_json_has_no_word_for_are_gaps_of_a_figure(cell, tmp_path):
    import pandas as pd

    for name, column in (("rows.parquet", "value"), ("rows.parquet", "high"), ("series.parquet", "y")):
        frame = pd.read_parquet(cell / name)
        frame.loc[frame.index[::3], column] = float("inf")
        frame.to_parquet(cell / name)
        _fit(cell / name)
    for line in (["compare", "run", "run"], ["table", "run"], ["drift-test", "run"], ["compare-definitions", "run"]):
        command([*line, "--json"], tmp_path, 0)
    command(["dynamics", "run"], tmp_path, 2, "holds no suite")
    command(["report", "run"], tmp_path, 0)
    assert (tmp_path / "report.html").stat().st_size > 100_000


def test_levels_of_rows_that_do_not_say_how_many_points_they_are_of(cell, tmp_path):
    import pandas as pd

    frame = pd.read_parquet(cell / "rows.parquet")
    frame["n"] = pd.array([None] * len(frame), "Int64")
    frame.to_parquet(cell / "rows.parquet")
    _fit(cell / "rows.parquet")
    command(["isotropic-null", "--run", "run"], tmp_path, 2, "run has no hidden states with a cosine")


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("VAN", "layer_norm_eps", "x"),
        ("MANTa-LM", "pad_token_id", "cuda"),
        ("T5", "pad_token_id", 1 << 63),
        ("Whisper", "eos_token_id", [[]]),
    ],
)
def test_a_configuration_under_which_nothing_can_be_computed(seeds, tmp_path, kind, name, value):
    import isoscope

    shutil.copytree(seeds / "models" / "kinds" / kind, tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises(IsoscopeError, match=r"model cannot be (run|loaded): .{10,500}\."):
        isoscope.measure(str(tmp_path / "model"), out=tmp_path / "run", quiet=True, max_items=1, max_tokens=32)


@pytest.mark.parametrize("shape", [[1 << 63, 0], [(1 << 63) - 1, 0], [0, 1 << 60, 1 << 60], [0] * 70])
def test_shapes_that_no_library_has_room_for(seeds, tmp_path, shape):
    """They hold no bytes, so that the format allows them; torch and numpy do not, each in words of its own."""
    import hashlib

    from isoscope import repair
    from isoscope.models.loading.weights import read_file
    from isoscope.models.naming.audit import tensor_hashes
    from isoscope.runs.tensors import read_partial

    about = {"format": "isoscope.repair/1", "class": "Centre", "cursor": '{"items": 1}'}
    header = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}, "__metadata__": about}).encode()
    raw = len(header).to_bytes(8, "little") + header
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw)
    for read, sentence in ((repair.load, "is not a repair that isoscope saved"), (open_array, "shape ")):
        with pytest.raises(IsoscopeError, match=sentence):
            read(path)
    if max(shape) < 1 << 63:  # torch makes such tensors, which hold nothing
        assert read_file(path)["x"].shape == tuple(shape)
        assert tensor_hashes(path.parent) == tensor_hashes(path.parent)
    else:
        for read in (read_file, lambda path: tensor_hashes(path.parent)):
            with pytest.raises(IsoscopeError, match=r"The weights in .* are damaged"):
                read(path)
    seal = {"dtype": "U8", "shape": [32], "data_offsets": [0, 32]}
    header = json.dumps(json.loads(header) | {"seal": seal}).encode()
    raw = len(header).to_bytes(8, "little") + header
    path.write_bytes(raw + hashlib.sha256(raw).digest())
    assert read_partial(path) is None


def test_a_tokenizer_that_panics(seeds, tmp_path):
    """What is written in Rust raises something that is no Exception."""
    import isoscope

    shutil.copytree(seeds / "models" / "kinds" / "T5", tmp_path / "model")
    path = tmp_path / "model" / "tokenizer.json"
    found = json.loads(path.read_text())
    found["post_processor"]["single"][2]["SpecialToken"]["id"] = "nobody"
    path.write_text(json.dumps(found))
    with pytest.raises(IsoscopeError, match=r"model cannot be loaded: no entry found for key\."):
        isoscope.measure(str(tmp_path / "model"), out=tmp_path / "run", quiet=True, max_items=1, max_tokens=32)


@pytest.mark.parametrize("prefix", ["", "untrained:"])
def test_a_gguf_file_without_its_sizes_is_not_made_with_those_of_another_model(seeds, tmp_path, prefix):
    """Where a field is missing the library takes that of a model of 7 billion weights."""
    from isoscope.models.loading.load import load_model
    from isoscope.models.naming.model_name import resolve_model

    raw = (seeds / "models" / "llama.gguf").read_bytes()
    (tmp_path / "a.gguf").write_bytes(raw.replace(b"embedding_length", b"embedding_LENGTH").replace(b"block_count", b"block_COUNT"))
    with pytest.raises(IsoscopeError, match=r"its configuration describes .* numbers"):
        load_model(resolve_model(f"{prefix}{tmp_path / 'a.gguf'}"), device="cpu", allow_partial=True)


def test_half_a_character(cell, tmp_path):
    """JSON can name one; nothing can be written of it."""
    import pandas as pd

    frame = pd.read_parquet(cell / "rows.parquet")
    frame["spec"] = [json.dumps(json.loads(spec) | {"note": "\ud800"}) for spec in frame["spec"]]
    frame.to_parquet(cell / "rows.parquet")
    _fit(cell / "rows.parquet")
    for words in (["compare-definitions", "run"], ["compare-definitions", "run", "--json"], ["table", "run"], ["report", "run"]):
        command(words, tmp_path, 0)


def test_a_model_that_cannot_be_finished_takes_no_memory_first(seeds, tmp_path):
    """Its encoder would take 4 GB, and then its decoder cannot be made."""
    import torch

    from isoscope.models.loading.load import load_model
    from isoscope.models.naming.model_name import resolve_model

    found = torch.load(seeds / "models" / "whisper.pt", weights_only=True)
    found["dims"]["n_audio_state"] = 8000
    torch.save(found, tmp_path / "a.pt")
    with pytest.raises(IsoscopeError, match=r"its configuration describes 960,368,000 numbers"):
        load_model(resolve_model(f"untrained:{tmp_path / 'a.pt'}"), device="cpu")


def test_a_model_in_earnest_is_held_to_the_same(seeds, tmp_path):
    """Where a model cannot be tried without memory, since it looks at its numbers while it is made."""
    import torch
    from transformers import PretrainedConfig

    from isoscope.models.loading.file_limits import build_model, check_model_size
    from isoscope.models.naming.model_name import resolve_model

    class Looks(torch.nn.Module):
        def __init__(self, config):
            super().__init__()
            torch.zeros(1).item()
            self.tied = self.first = torch.nn.Linear(10, 10)
            self.large = torch.nn.Embedding(config.width, 1 << 20)

    reference = resolve_model(str(seeds / "models" / "safetensors"))
    check_model_size(Looks, PretrainedConfig(width=1000), reference, 4)
    with pytest.raises(IsoscopeError, match=r"its configuration describes 1,048,576,110 numbers"):
        build_model(Looks, PretrainedConfig(width=1000), reference, 4)
    assert build_model(Looks, PretrainedConfig(width=1), reference, 4).large.weight.numel() == 1 << 20


@pytest.mark.parametrize(
    ("kind", "file", "change", "said"),
    [
        (
            "ByT5",
            "tokenizer_config.json",
            {"extra_ids": 1 << 40},
            r"extra_ids = 1,099,511,627,776 in the tokenizer_config.json of .* exceeds the limit of 65,536",
        ),
        (
            "ViT",
            "preprocessor_config.json",
            {"size": {"height": 10**6, "width": 10**6}},
            r"height = 1,000,000 in the preprocessor_config.json of ",
        ),
        ("ResNet", "preprocessor_config.json", {"size": 10**6}, r"size = 1,000,000 in the preprocessor_config.json of "),
        (
            "wav2vec-2-0",
            "preprocessor_config.json",
            {"sampling_rate": 1 << 31},
            r"sampling_rate = 2,147,483,648 in .* exceeds the limit of 768,000",
        ),
        (
            "SegFormer--MiT-",
            "config.json",
            {"image_size": 10**6},
            r"image_size = 1,000,000 in the configuration of .* exceeds the limit of 4,096",
        ),
        ("CANINE-s", "config.json", {"num_hash_functions": 65535}, r"describes \d\d,\d\d\d parts and more, and its files have"),
    ],
)
def test_what_would_be_prepared_or_made_without_end(seeds, tmp_path, kind, file, change, said):
    import isoscope

    shutil.copytree(seeds / "models" / "kinds" / kind, tmp_path / "model")
    path = tmp_path / "model" / file
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(IsoscopeError, match=said):
        isoscope.measure(str(tmp_path / "model"), out=tmp_path / "run", quiet=True, max_items=1, max_tokens=32)


def test_every_value_has_its_turn(seeds):
    from tests.hostile.mutate import EVERY, STRIDE
    from tests.hostile.targets import _in_turn, _places

    total = len(_places(seeds / "models" / "kinds", "*/*.json")) * len(EVERY)
    assert len({number * STRIDE % total for number in range(total)}) == total
    path, found, rounds = _in_turn(seeds / "models" / "kinds", "*/*.json", 12_345)
    assert repr(found) != repr(json.loads(path.read_text()))
    assert rounds == 12_345 * STRIDE // total


def test_a_model_that_fails_at_a_batch_and_not_before(seeds, tmp_path, monkeypatch):
    from transformers.models.canine.modeling_canine import CanineModel

    import isoscope

    forward = CanineModel.forward

    def fails(self, input_ids, **more):
        if input_ids.shape[1] > 64:
            raise RuntimeError("the sizes do not match")
        return forward(self, input_ids, **more)

    monkeypatch.setattr(CanineModel, "forward", fails)
    with pytest.raises(IsoscopeError, match=r"CANINE-s cannot be run: the sizes do not match\."):
        isoscope.measure(str(seeds / "models" / "kinds" / "CANINE-s"), out=tmp_path / "run", quiet=True, max_items=1, max_tokens=300)


def test_a_tokenizer_that_takes_no_tokens_at_most(seeds, tmp_path):
    """The positions that the model has are what counts then."""
    import isoscope

    shutil.copytree(seeds / "models" / "kinds" / "CANINE-s", tmp_path / "model")
    path = tmp_path / "model" / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": 0}))
    found = isoscope.measure(str(tmp_path / "model"), out=tmp_path / "run", quiet=True, max_items=3, max_tokens=600)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert {one["spec"]["seq_len"] for one in found.manifests()} == {min(512, config["max_position_embeddings"])}


def _of_another_model(folder, **sizes):
    """Put statistics of a model with other sizes in the place of a cell's own."""
    from isoscope.core.site import Site
    from isoscope.runs.tensors import write_tensors
    from isoscope.statistics.head_statistics import Heads
    from tests.runs.packing import pack

    made = {Site("encoder", kind, 1): Heads(names=["special", "first", "body"], **sizes) for kind in ("query", "key")}
    write_tensors(pack(made).items, folder / "statistics.safetensors")
    _fit(folder / "statistics.safetensors")


@pytest.mark.parametrize("sizes", [{"h": 4, "e": 4}, {"h": 2, "e": 6}])
def test_checkpoints_of_different_models_have_no_dynamics(seeds, tmp_path, sizes):
    shutil.copytree(seeds / "trained" / "run", tmp_path / "run")
    _forget_derived(tmp_path / "run")
    cells = sorted((tmp_path / "run" / "cells").iterdir())
    about = {cell: json.loads((cell / "manifest.json").read_text())["columns"] for cell in cells}
    (last,) = (cell for cell in cells if (about[cell]["step"], about[cell]["seed"]) == (20, 1))
    _of_another_model(last, **sizes)
    command(["dynamics", "run"], tmp_path, 2, "encoder.query.1 has other widths, heads or slices in ")


def test_rows_of_heads_that_the_statistics_do_not_have(seeds, tmp_path):
    import pandas as pd

    shutil.copytree(seeds / "trained" / "run", tmp_path / "run")
    _forget_derived(tmp_path / "run")
    for path in (tmp_path / "run" / "cells").glob("*/rows.parquet"):
        frame = pd.read_parquet(path)
        frame["head"] = frame["head"] + 7
        frame.to_parquet(path)
        _fit(path)
    command(["dynamics", "run"], tmp_path, 2, "Rows speak of head ")


def test_shards_of_different_models_are_not_merged(seeds, tmp_path):
    from isoscope.runs.stored_cell import key_of, seal_manifest

    for i in (0, 1):
        shutil.copytree(next((seeds / "run" / "cells").iterdir()), tmp_path / "cell")
        manifest = json.loads((tmp_path / "cell" / "manifest.json").read_text())
        manifest["identity"]["shard"] = [i, 2]
        manifest["key"] = key_of(manifest["identity"])
        (tmp_path / "cell" / "manifest.json").write_text(seal_manifest(manifest))
        (tmp_path / "run" / "cells").mkdir(parents=True, exist_ok=True)
        last = (tmp_path / "cell").rename(tmp_path / "run" / "cells" / manifest["key"])
    command(["merge", "run", "--out", "whole"], tmp_path, 0)
    _of_another_model(last, h=4, e=4)
    command(["merge", "run", "--out", "merged"], tmp_path, 2, "are not of one model: encoder.query.1 has other widths, heads or slices in ")


def test_a_layer_whose_rows_are_missing_at_the_first_step_has_no_change(seeds, tmp_path):
    """The steps of layers differ where a cell lacks rows; a change from a later step would be another number under the same name."""
    import pandas as pd

    import isoscope

    shutil.copytree(seeds / "trained" / "run", tmp_path / "run")
    _forget_derived(tmp_path / "run")
    for folder in (tmp_path / "run" / "cells").iterdir():
        if json.loads((folder / "manifest.json").read_text())["columns"]["step"] == 0:
            frame = pd.read_parquet(folder / "rows.parquet")
            frame["layer"] = frame["layer"].where(frame["layer"] != 1, 1_000_000)
            frame.to_parquet(folder / "rows.parquet")
            _fit(folder / "rows.parquet")
    command(["dynamics", "run"], tmp_path, 0)
    table = isoscope.open(tmp_path / "run").table()
    changes = table[table["metric"].eq("between_cosine_change") & table["kind"].eq("hidden")].set_index("layer")["value"]
    assert changes[0] == changes[0]
    assert changes.drop(0).isna().all()


def test_a_number_that_the_first_seed_does_not_have_is_drawn_of_another(seeds, tmp_path):
    import pandas as pd

    shutil.copytree(seeds / "trained" / "run", tmp_path / "run")
    for path in (tmp_path / "run" / "cells").glob("*/rows.parquet"):
        frame = pd.read_parquet(path)
        frame["value"] = frame["value"].where(frame["seed"].ne(0) | frame["metric"].ne("drift_ratio"))
        frame.to_parquet(path)
        _fit(path)
    command(["report", "run", "--figures", "figures", "--only", "training_geometry"], tmp_path, 0)
    assert "drift ratio" in next((tmp_path / "figures").glob("training_geometry*.svg")).read_text()


def test_what_torch_raises_under_a_trace_of_channels_is_the_model_s():
    import torch

    from isoscope.models.model_errors import is_raised_by_us
    from isoscope.models.tapping.channels import ChannelTrace

    with pytest.raises(RuntimeError, match="Kernel size can't be greater") as raised, ChannelTrace():
        torch.nn.Conv2d(1, 1, 4)(torch.zeros(1, 1, 1, 1))
    assert not is_raised_by_us(raised.value)
