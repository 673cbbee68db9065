"""isoscope merge: shards equal one pass."""

import numpy as np

from tests.cli.calling import isoscope, read_csv, read_strict_json


def test_merged_shards_equal_one_pass(good_run, shards, tmp_path):
    out = tmp_path / "merged"
    answer = isoscope("merge", shards("1/2"), shards("2/2"), "--out", out, "--json").worked()
    assert [cell["columns"]["model"] for cell in read_strict_json(answer.out)["cells"]] == ["small-bert"]
    key = ["stack", "kind", "layer", "policy", "metric"]
    both = [read_csv(isoscope("table", run, "--policy", "every")).query("model == 'small-bert'") for run in (good_run, out)]
    whole, merged = (table.fillna({"layer": -1}).set_index(key).sort_index() for table in both)
    assert list(whole.index) == list(merged.index)
    assert len(merged) > 150
    np.testing.assert_array_equal(merged["n"], whole["n"])
    # The last singular value of these layers is rounding, whose root rankme takes, and neighbours nearly as far as each other have ratios
    # whose logarithm is; all other numbers agree much more closely.
    loose = whole.index.get_level_values("metric").isin(["rankme", "two_nn"])
    for column in ("value", "low", "high", "null", "null_sd"):
        np.testing.assert_allclose(merged[column][~loose], whole[column][~loose], rtol=1e-6, atol=1e-7, err_msg=column)
        np.testing.assert_allclose(merged[column][loose], whole[column][loose], rtol=2e-5, err_msg=column)
