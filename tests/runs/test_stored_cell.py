"""Stored cells: what a manifest may say, what its seal covers, and cells of other versions."""

import hashlib
import json

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.core.table import TABLE_COLUMNS, make_table
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import KEEP_LEVELS, key_of, mistake_in_manifest, seal_holds, seal_manifest
from isoscope.statistics.site_statistics import VERSION
from tests.measuring.made_runs import corpus, write
from tests.runs.made_cells import numbers


def test_statistics_of_another_version_are_not_read(tmp_path):
    x, mask = corpus(np.random.default_rng(0), 12)
    cell = next(iter(write(tmp_path / "run", [x], mask).run.cells()))
    assert cell.statistics()
    cell.manifest["identity"]["statistics"] = VERSION - 1
    with pytest.raises(
        IsoscopeError, match=f"holds statistics of version {VERSION - 1}, and this isoscope reads version {VERSION}; measure"
    ):
        cell.statistics()


MANIFEST = {
    "key": "k",
    "identity": {"shard": [0, 2]},
    "columns": {"model": "net", "revision": None, "step": 3},
    "spec": {"documents": 4, "dtype": None},
    "keep": "sums",
    "files": {"rows.parquet": {}, "series.parquet": {"at": "series.0a1b2c3d-12-00ff00ff.parquet"}},
}


def test_a_manifest_without_mistake():
    assert mistake_in_manifest(MANIFEST, "k") == ""


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        ({"keep": 1}, "it lacks keep"),
        ({"key": "other"}, "it is of the cell 'other'"),
        ({"keep": "some"}, "it kept 'some', and not rows, sums, all"),
        ({"files": {"../rows.parquet": {}}}, "it names the file '../rows.parquet'"),
        ({"files": {"rows.parquet": {"at": "rows.../../x.parquet"}}}, "it names the file 'rows.../../x.parquet'"),
        ({"files": {"rows.parquet": {"at": "series.parquet"}}}, "it names the file 'series.parquet'"),
        ({"columns": {}}, "its model is None"),
        ({"columns": {"model": "net", "step": "3"}}, "its step is '3'"),
        ({"columns": {"model": "net", "seed": 1 << 63}}, f"its seed is {1 << 63}"),
        ({"spec": {"documents": None}}, "its documents is None"),
        ({"tried": ["two_nn", 3]}, "what it tried is ['two_nn', 3]"),
        ({"seconds": -1.0}, "its seconds are -1.0"),
        ({"memory": True}, "its memory are True"),
        ({"identity": {"shard": [2, 2]}}, "its shard is [2, 2]"),
        ({"identity": {"shard": [False, True]}}, "its shard is [False, True]"),
        ({"identity": {"shard": [0, 3], "shards": [0, 3]}}, "its shards are [0, 3]"),
        ({"identity": {"shard": [0, 3], "shards": [1, 0]}}, "its shards are [1, 0]"),
        ({"identity": {"shard": [0, 3], "shards": [True]}}, "its shards are [True]"),
        ({"identity": {"shard": [0, 3], "block_hashes": {"-1": "a"}}}, "its block hashes are {'-1': 'a'}"),
        ({"identity": {"shard": [0, 3], "block_hashes": {"1": 2}}}, "its block hashes are {'1': 2}"),
        ({"identity": {"shard": [0, 3], "shards": []}}, "it names no shard of a source"),
        ({"identity": {"shard": [0, 3], "block_hashes": {"1": "a"}}}, "it names no shard of a source"),
    ],
)
def test_a_mistake_in_a_manifest_is_named(change, mistake):
    assert mistake_in_manifest(MANIFEST | change, "k") == mistake


def test_keys_are_the_hash_of_the_identity_whatever_its_order():
    assert key_of({"b": 1, "a": [0]}) == hashlib.sha256(b'{"a": [0], "b": 1}').hexdigest()[:24]


def test_a_seal_ends_the_manifest_and_covers_every_other_character():
    text = seal_manifest(MANIFEST)
    assert json.loads(text) == MANIFEST | {"seal": json.loads(text)["seal"]}
    assert seal_manifest(json.loads(text)) == text
    for at in range(len(text)):
        changed = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
        assert not seal_holds(changed)


@pytest.mark.parametrize(("kept", "asked"), [("rows", 1), ("sums", 2), ("all", 3)])
def test_a_cell_keeps_what_it_kept_and_less(tmp_path, kept, asked):
    cell = Run(tmp_path).write_cell({"a": kept}, {"model": "net"}, {}, make_table([], TABLE_COLUMNS), keep=kept)
    assert [cell.keeps(level) for level in KEEP_LEVELS] == [i < asked for i in range(3)]


def test_a_file_that_shrank_is_damaged(tmp_path):
    cell = Run(tmp_path).write_cell({}, {"model": "net"}, {}, numbers(1))
    size = cell.path_of("rows.parquet").stat().st_size
    with cell.path_of("rows.parquet").open("r+b") as file:
        file.truncate(size - 1)
    with pytest.raises(IsoscopeError, match=rf"rows.parquet is damaged \({size - 1} bytes, and {size} were written\); delete"):
        Run(tmp_path).cells()
