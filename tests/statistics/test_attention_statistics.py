"""What is kept of rows of attention: sums against plain loops, merged against one pass, stored against held, NaN told."""

import numpy as np
import pytest

from isoscope.statistics.attention_statistics import EDGES, ROW_SUMS, SEQUENCE_SUMS, AttentionStatistics, score_counts
from tests.statistics.made_attention import NAMES, B, H, T, batch, counts, filled


def same(a, b):
    assert a.names == b.names
    for one, two in ((a.sums, b.sums), (a.sequences, b.sequences)):
        np.testing.assert_allclose(one, two, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(a.histogram, b.histogram)


def test_sums_equal_plain_loops():
    rows, codes, group = batch()
    found = filled(0)
    sums, sequences = np.zeros_like(found.sums), np.zeros_like(found.sequences)
    for i in range(B):
        for j in range(H):
            kept = [r for r in range(T) if codes[i, r] >= 0]
            for r in kept:
                n, mean, sd = rows["open"][i, j, r], rows["mean"][i, j, r], rows["sd"][i, j, r]
                row = {name: rows[name][i, j, r] for name in ("entropy", "maximum", "minimum", "median", "mean", "first")}
                row |= {"rows": 1, "many": n > 1, "normalised": row["entropy"] / np.log(n) if n > 1 else 0, "log_open": np.log(n)}
                row |= {
                    "share": 1 / n,
                    "first_share": rows["sees_first"][i, j, r] / n,
                    "variance": sd**2,
                    "open": n,
                    "score": n * mean,
                    "score2": n * (sd**2 + mean**2),
                }
                sums[j, codes[i, r], group[i]] += [row[name] for name in ROW_SUMS]
            top = rows["received"][i, j].max()
            one = {
                "sequences": 1,
                "rows": len(kept),
                "share": sum(1 / rows["open"][i, j, kept]),
                "top": top,
                "sinks": top > 0.3 * len(kept),
            }
            one |= {"highest": rows["maximum"][i, j, kept].max(), "lowest": rows["minimum"][i, j, kept].min()}
            sequences[j, group[i]] += [one[name] for name in SEQUENCE_SUMS]
    np.testing.assert_allclose(found.sums, sums, rtol=1e-12)
    np.testing.assert_allclose(found.sequences, sequences, rtol=1e-12)
    assert found.sequences[..., SEQUENCE_SUMS.index("sinks")].sum() > 0


def test_merged_equals_one_pass_in_any_order():
    whole = filled(0, 1, 2)
    same(filled(0).merge(filled(1, 2)), whole)
    same(filled(2).merge(filled(1)).merge(filled(0)), whole)
    one = filled(0)
    before = one.sums.copy()
    one.merge(filled(1))
    np.testing.assert_array_equal(one.sums, before)


def test_sequences_one_at_a_time_equal_a_batch():
    rows, codes, group = batch()
    alone = AttentionStatistics(H, 8, NAMES, scale=0.5, median=True, histogram=True)
    for i in range(B):
        alone.update({name: value[i : i + 1] for name, value in rows.items()}, codes[i : i + 1], group[i : i + 1])
    alone.count(counts(0))
    same(alone, filled(0))


def test_state_round_trip():
    held = filled(0, 1)
    again = AttentionStatistics.from_state(held.state())
    same(held, again)
    assert (again.h, again.e, again.scale, again.median) == (H, 8, 0.5, True)
    plain = AttentionStatistics.from_state(AttentionStatistics(H, 8, ["body", "special"]).state())
    assert (plain.names, plain.median, plain.histogram) == (["body", "special"], False, None)
    same(held.merge(again), filled(0, 1).merge(held))
    with pytest.raises(ValueError, match="another version"):
        AttentionStatistics.from_state(held.state() | {"sums": held.sums[..., 1:]})


@pytest.mark.parametrize(("name", "value"), [("entropy", np.nan), ("mean", np.inf), ("sd", np.nan)])
def test_what_is_not_finite_is_counted_and_nothing_added(name, value):
    rows, codes, group = batch()
    rows[name][0, :2, 0] = value
    statistics = AttentionStatistics(H, 8, NAMES, median=True)
    assert statistics.update(rows, codes, group) == 2
    assert statistics.sums.sum() == 0
    assert statistics.slices_in_use == []


def test_counting_scores():
    rng = np.random.default_rng(0)
    scores = (rng.standard_normal(20_000) * np.exp(4 * rng.standard_normal(20_000))).astype(np.float32)
    scores[:4] = 0, -0.0, EDGES[-300], 1e30
    inside = np.clip(scores, EDGES[0], np.nextafter(EDGES[-1], 0, dtype=np.float32))
    expected = np.histogram(inside, EDGES)[0]
    np.testing.assert_array_equal(score_counts(scores), expected)
    assert (np.diff(EDGES) > 0).all()
