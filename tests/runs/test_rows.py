"""Numbers of a whole stack in the table: from statistics, and filled in from a stored run."""

import json

import numpy as np
import pytest

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.metrics import bell, profiles
from isoscope.runs.rows import numbers, tables
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import manifest_of
from isoscope.statistics.kernel import block_sums
from isoscope.statistics.sample import item_hash, point_hashes
from isoscope.statistics.site_statistics import SiteStatistics
from tests.runs.packing import pack, write_made_cell

BLOCKS, DOCUMENTS, TOKENS, D = 8, 40, 6, 5
UNITS = np.array([item_hash(str(i)) for i in range(DOCUMENTS)], dtype=np.uint64)
NAMES = ["first", "body", "body:sink"]


def layer(points, codes):
    """The statistics of documents (g, t, d) whose tokens are of these slices."""
    statistics = SiteStatistics(D, NAMES, sample=4096)
    statistics.groups = None
    for code in range(len(NAMES)):
        kept = codes == code
        statistics.moments[code].add(block_sums(points, kept), points[kept])
    owner, index = np.repeat(UNITS, TOKENS), np.tile(np.arange(TOKENS), DOCUMENTS)
    statistics.sample.update(points.reshape(-1, D), point_hashes(0, owner, index), owner, index, codes.ravel())
    return statistics


@pytest.fixture(scope="module")
def sites():
    """A decoder whose first tokens make a bell, with one document of sinks in layer 3; and a short encoder."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal((DOCUMENTS, TOKENS, D))
    codes = np.tile(np.where(np.arange(TOKENS) == 0, 0, 1).astype(np.int16), (DOCUMENTS, 1))
    found = {}
    for number in range(BLOCKS + 1):
        points = base + 0.1 * rng.standard_normal(base.shape)
        points[:, 0, 0] *= 30 if 2 < number < 7 else 1
        own = codes.copy()
        own[5, 1:] = 2 if number == 3 else 1
        found[Site("decoder", "hidden", number)] = layer(points, own)
    found |= {Site("encoder", "hidden", number): layer(base, codes) for number in range(3)}
    return found | {Site("decoder", "final", BLOCKS + 1): layer(base, codes)}


def whole(table):
    return table[table["layer"].isna()].set_index(["stack", "policy", "metric"])


def test_every_stack_and_policy_has_its_profiles(sites):
    table, _ = tables(sites, {"model": "m"}, {"seed": 0})
    rows = whole(table)
    assert len(rows) == 2 * 4 * len(profiles()) + len(profiles())  # sinks by themselves are in one stack
    assert set(rows["kind"]) == {"hidden"}
    assert rows["head"].isna().all()
    clouds = {site.layer: Cloud.of(kept, "body") for site, kept in sites.items() if (site.stack, site.kind) == ("decoder", "hidden")}
    found = bell(clouds)
    row = rows.loc[("decoder", "body", "bell")]
    assert (row["value"], row["low"], row["high"]) == pytest.approx((float(found), found.low, found.high), abs=1e-12)
    assert rows.loc[("decoder", "all", "bell"), "low"] > 0.3
    assert rows.loc[("decoder", "body", "bell"), "high"] < 0.05
    said = json.loads(rows.loc[("decoder", "body-no-sink", "bell"), "spec"])
    assert said["note"] == "interval over the 39 of 40 documents that are in every layer's sample"
    assert said["slices"] == ["body"]
    assert json.loads(rows.loc[("decoder", "body", "bell"), "spec"])["slices"] == ["body", "body:sink"]
    assert "at least 6 blocks, and this stack has 2" in rows.loc[("encoder", "all", "bell"), "spec"]
    assert "of 1, 2, 4, 5 and 3 more there is none" in rows.loc[("decoder", "sink", "bell"), "spec"]


def test_one_that_is_named_comes_alone_and_is_the_same(sites):
    every, _ = tables(sites, {"model": "m"}, {})
    one, series = tables(sites, {"model": "m"}, {}, names=["bell"])
    assert set(one["metric"]) == {"bell"}
    assert series.empty
    truth = whole(every).query("metric == 'bell'")[["value", "low", "high"]]
    np.testing.assert_array_equal(whole(one)[["value", "low", "high"]].to_numpy(float), truth.to_numpy(float))
    both, _ = tables(sites, {"model": "m"}, {}, names=["bell", "top_share"])
    assert set(both["metric"]) == {"bell", "top_share"}


def test_a_part_of_a_stack_has_no_profile(sites):
    table, _ = tables(sites, {"model": "m"}, {}, names=["bell"], layers="0-8")
    assert table["value"].isna().all()
    assert table["spec"].str.contains("only the layers 0-8 were measured").all()


def test_a_stored_run_is_asked_later(sites, tmp_path):
    table, series = tables(sites, {"model": "m"}, {"seed": 0})
    run = Run(tmp_path / "run")
    run.prepare()
    identity = {"weights": "w", "source": "s", "shard": [0, 1], "layers": "all"}
    write_made_cell(
        run, "0" * 24, manifest_of(identity, {"model": "m"}, {"seed": 0}, "all"), table[table["layer"].notna()], series, pack(sites).items
    )
    results = isoscope.open(run.path)
    filled = results.table("bell", "every")
    np.testing.assert_allclose(
        filled.sort_values(["stack", "policy"])["value"].to_numpy(float),
        table[table["metric"] == "bell"].sort_values(["stack", "policy"])["value"].to_numpy(float),
        rtol=1e-9,
    )
    assert {profile.name for profile in profiles()} <= set(results.table()["metric"])
    assert len(results.table(["bell", "share_range"], "body")) == 4


def test_a_matrix_has_no_profile():
    with pytest.raises(IsoscopeError, match="bell is a number of a whole stack"):
        numbers(cloud_of(np.random.default_rng(0).standard_normal((30, 3))), ["bell"])
