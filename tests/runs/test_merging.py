"""Shards are merged into the cell of one pass; what does not belong together is refused."""

import numpy as np
import pandas as pd
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.runs.merging import merge
from isoscope.runs.rows import tables
from isoscope.runs.run import Run
from tests.measuring.made_runs import corpus, site

COLUMNS = {"model": "net", "revision": "r", "step": None, "seed": None, "modality": "text", "family": "encoder"}
COUNT = 30


def write_shard(path, i, k, *, keep="all", layers=1):
    """The shard i of k of thirty documents: every k-th of them."""
    x, mask = corpus(np.random.default_rng(0), COUNT)
    chosen = np.arange(COUNT) % k == i
    sites = {Site("encoder", "hidden", layer): site(x, mask & chosen[:, None]) for layer in range(layers)}
    spec = {"data": "made", "documents": int(chosen.sum()), "tokens": int(mask[chosen].sum())}
    identity = {"model": "net", "shard": [i, k]}
    return Run(path).write_cell(identity, COLUMNS, spec, *tables(sites, COLUMNS, spec), sites, keep=keep, seconds=1.5, memory=100 + i)


def test_three_shards_are_one_pass(tmp_path):
    for i in (2, 0, 1):
        write_shard(tmp_path / str(i), i, 3)
    whole = write_shard(tmp_path / "whole", 0, 1)
    results = merge([tmp_path / "2", tmp_path / "0", tmp_path / "1", tmp_path / "0"], tmp_path / "out")
    (cell,) = results.run.cells()
    assert cell.manifest["key"] == whole.manifest["key"], "the identity of a cell in one piece"
    spec = cell.manifest["spec"]
    assert (spec["documents"], spec["tokens"]) == tuple(whole.manifest["spec"][name] for name in ("documents", "tokens"))
    assert (cell.manifest["seconds"], cell.manifest["memory"]) == (4.5, 102)
    named = {name: frame.set_index(["policy", "metric"])["value"] for name, frame in (("merged", cell.rows()), ("whole", whole.rows()))}
    pd.testing.assert_series_equal(named["merged"], named["whole"], rtol=1e-9)


def test_a_cell_in_one_piece_and_an_experiment_are_copied(tmp_path):
    whole = write_shard(tmp_path / "run", 0, 1)
    experiment = Run(tmp_path / "run").write_cell({"experiment": "made"}, COLUMNS, {}, make_table([], TABLE_COLUMNS))
    keys = {cell.manifest["key"] for cell in merge([tmp_path / "run"], tmp_path / "out").run.cells()}
    assert keys == {whole.manifest["key"], experiment.manifest["key"]}


@pytest.mark.parametrize(
    ("shards", "message"),
    [
        ([(0, 3), (2, 3)], "The shards 2/3 of net are missing"),
        ([(0, 2), (1, 3)], r"of different divisions \(1/2, 2/3\)"),
        ([(0, 2, "rows"), (1, 2)], "A shard of net kept only rows"),
        ([(0, 2), (1, 2, "all", 2)], None),
    ],
)
def test_which_shards_can_be_merged(tmp_path, shards, message):
    """A shard without items lacks sites, so that a site may be missing from one of them."""
    for i, shard in enumerate(shards):
        write_shard(tmp_path / str(i), *shard[:2], **dict(zip(("keep", "layers"), shard[2:], strict=False)))
    paths = [tmp_path / str(i) for i in range(len(shards))]
    if message is None:
        assert merge(paths, tmp_path / "out").table("mean_norm")["layer"].unique().tolist() == [0, 1]
        return
    with pytest.raises(IsoscopeError, match=message):
        merge(paths, tmp_path / "out")


def test_shards_that_hold_nothing_are_refused_as_one_pass_refuses_their_source(tmp_path):
    spec = {"data": "blank.txt", "counted": "frames", "documents": 0, "tokens": 0}
    for i in range(3):
        x, mask = corpus(np.random.default_rng(0), COUNT)
        sites = {Site("encoder", "hidden", 0): site(x, mask & False)}
        empty = make_table([], TABLE_COLUMNS), make_table([], SERIES_COLUMNS)
        Run(tmp_path / str(i)).write_cell({"model": "net", "shard": [i, 3]}, COLUMNS, spec, *empty, sites, keep="all")
    paths = [tmp_path / str(i) for i in range(3)]
    with pytest.raises(IsoscopeError, match=r"^blank\.txt gives net no frames\.$"):
        merge(paths, tmp_path / "out")
    assert len(merge(paths[:2], tmp_path / "some", partial=True).run.cells()) == 1, "the third shard may hold something"


def test_what_was_kept_of_every_shard_is_kept(tmp_path):
    write_shard(tmp_path / "a", 0, 2)
    write_shard(tmp_path / "b", 1, 2, keep="sums")
    (cell,) = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out").run.cells()
    assert cell.manifest["keep"] == "sums"
