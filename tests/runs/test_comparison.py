"""Differences of two runs: nothing against itself, what was put in against what it was put into, and intervals that cover the truth."""

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.core.number import Number
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.paired_difference import difference, unpaired_difference
from isoscope.metrics import registry
from isoscope.runs.comparison import compare
from isoscope.statistics.jackknife_groups import GROUPS
from tests.measuring.made_runs import UNITS, D, corpus, moved, site, write

LAYERS = 4
ONE = (1.0, 1.0)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two models of four layers on the same 120 documents: layer 2 has drifted, layer 3 is stretched, the others are the same."""
    folder = tmp_path_factory.mktemp("compare")
    x, mask = corpus(np.random.default_rng(0), 120)
    a = write(folder / "a", [moved(x, 0.3 * i) for i in range(LAYERS)], mask)
    shifts = [0.0, 0.3, 1.6, 0.9]
    b = write(folder / "b", [moved(x, shift, 1.0 + 2.0 * (i == 3)) for i, shift in enumerate(shifts)], mask, model="tuned")
    return a, b


def of(found, metric, layer):
    rows = found.rows
    return rows[(rows["metric"] == metric) & (rows["layer"] == layer)].iloc[0]


def test_a_run_against_itself_is_nothing(pair):
    found = compare(pair[0], pair[0])
    assert len(found.rows) == 3 * LAYERS
    for column in ("difference", "low", "high", "least"):
        assert (found.rows[column] == 0).all()
    assert set(found.rows["how"]) == {"paired"}
    assert not found.rows["moved"].any()
    assert found.rows_beyond(0.0).empty
    assert found.differ == {}
    assert found.sentences == [f"Identical; {3 * LAYERS} numbers are the same (between_cosine, top_share and effective_rank/d)."]


def test_what_was_moved_is_found_and_nothing_else(pair):
    found = compare(*pair)
    cosine = [bool(of(found, "between_cosine", layer)["moved"]) for layer in range(LAYERS)]
    assert cosine[:3] == [False, False, True]
    assert [bool(of(found, "top_share", layer)["moved"]) for layer in range(LAYERS)] == [False, False, False, True]
    drifted = of(found, "between_cosine", 2)
    assert drifted["difference"] == drifted["b"] - drifted["a"] > 0.2
    assert drifted["low"] < drifted["difference"] < drifted["high"]
    assert drifted["least"] == drifted["low"]
    shrunk = of(found, "effective_rank/d", 3)
    assert shrunk["difference"] < 0
    assert shrunk["least"] == -shrunk["high"]
    ranks = [pair[i].table("effective_rank", "all").set_index("layer")["value"] for i in (0, 1)]
    assert shrunk["difference"] == pytest.approx((ranks[1][3] - ranks[0][3]) / D, rel=1e-12)
    said = next(sentence for sentence in found.sentences if "top_share" in sentence)
    assert said.startswith("net → tuned: top_share rose by ")
    assert said.endswith(" in layer 3 of the encoder; 1 of 4 places moved.")
    assert set(found.rows_beyond(0.1)["layer"]) == {2, 3}
    assert found.rows_beyond(0.99).empty


def test_pairing_narrows_and_keeps_the_number(pair, tmp_path):
    x, mask = corpus(np.random.default_rng(0), 120)
    other = write(tmp_path / "other", [moved(x, 0.3 * i + 0.2) for i in range(LAYERS)], mask)
    elsewhere = write(tmp_path / "else", [moved(x, 0.3 * i + 0.2) for i in range(LAYERS)], mask, fingerprint="g")
    rows = write(tmp_path / "rows", [moved(x, 0.3 * i + 0.2) for i in range(LAYERS)], mask, keep="rows")
    paired, apart, bare = (compare(pair[0], run, metric=["between_cosine", "top_share"]) for run in (other, elsewhere, rows))
    assert (set(paired.rows["how"]), set(apart.rows["how"]), set(bare.rows["how"])) == ({"paired"}, {"unpaired"}, {"unpaired"})
    assert paired.rows["difference"].tolist() == apart.rows["difference"].tolist() == bare.rows["difference"].tolist()
    widths = [found.rows["high"] - found.rows["low"] for found in (paired, apart)]
    assert (widths[0] < 0.8 * widths[1]).mean() > 0.9
    assert apart.differ == {"fingerprint": ("f", "g")}
    shares = paired.rows[paired.rows["metric"] == "top_share"]
    assert shares["difference"].abs().max() < 1e-9, "a drift moves no centred share"
    assert not shares["moved"].any()


@pytest.mark.parametrize(("name", "stretches"), [("between_cosine", (1.0, 1.0)), ("top_share", (2.0, 3.0))])
def test_paired_intervals_cover_the_truth(name, stretches):
    """Of 150 corpora of 40 to 140 documents the interval covers the difference that a large corpus has in about 95 %.

    Of the share this is so where one direction leads: where all are alike, chance makes one lead, in the value as in the draws.
    """
    metric, rng, draws, covered = registry[name], np.random.default_rng(1), 150, 0
    x, mask = corpus(rng, 20_000)
    far = [points[mask] for points in (moved(x, 0.3, stretches[0]), moved(x, 1.0, stretches[1]))]
    if name == "between_cosine":
        truth = float(np.diff([(np.mean(y / np.linalg.norm(y, axis=1, keepdims=True), axis=0) ** 2).sum() for y in far])[0])
    else:
        truth = float(np.diff([(v := np.linalg.eigvalsh(np.cov(y.T)))[-1] / v.sum() for y in far])[0])
    for draw in range(draws):
        x, mask = corpus(rng, 40 + 20 * (draw % 6))
        clouds = tuple(Cloud.of(site(y, mask), "body") for y in (moved(x, 0.3, stretches[0]), moved(x, 1.0, stretches[1])))
        found = difference(metric, metric(clouds[0]), metric(clouds[1]), clouds, ONE)
        assert found.how == "paired"
        covered += found.low <= truth <= found.high
    assert 0.90 * draws <= covered <= 0.995 * draws


def test_no_difference_is_called_one_in_five_of_a_hundred():
    """Two models whose cosines have the same expectation: p is below 0.05 about as often as it should be."""
    metric, rng, draws, called = registry["between_cosine"], np.random.default_rng(2), 200, 0
    for _ in range(draws):
        x, mask = corpus(rng, 60)
        other = moved(x, 0.0)[..., ::-1].copy()
        other[..., 1] += 0.8
        clouds = tuple(Cloud.of(site(y, mask, sample=0), "body") for y in (moved(x, 0.8), other))
        called += difference(metric, metric(clouds[0]), metric(clouds[1]), clouds, ONE).p < 0.05
    assert called <= 0.1 * draws


def test_a_jackknife_left_out_by_hand():
    """The paired interval of the drift ratio, from its definition: leave one group of documents out of both at a time."""
    from scipy.stats import t as student

    x, mask = corpus(np.random.default_rng(3), 100)
    both = (x + 0.2, moved(x, 1.0))
    group = (UNITS[:100] % np.uint64(GROUPS)).astype(int)

    def ratio(y, keep):
        points = y[keep][mask[keep]]
        document = np.broadcast_to(np.arange(100)[:, None], mask.shape)[keep][mask[keep]]
        other = document[:, None] != document
        return (points @ points.T)[other].mean() / (points**2).sum(1).mean()

    every = np.ones(100, dtype=bool)
    whole = ratio(both[1], every) - ratio(both[0], every)
    left = np.array([ratio(both[1], group != g) - ratio(both[0], group != g) for g in np.unique(group)])
    sizes = np.array([mask[group == g].sum() for g in np.unique(group)])
    variance = ((left - whole) ** 2).sum() * (len(left) - 1) / len(left)
    half = student.ppf(0.975, sizes.sum() ** 2 / (sizes**2).sum() - 1) * variance**0.5
    metric, clouds = registry["drift_ratio"], tuple(Cloud.of(site(y, mask), "body") for y in both)
    found = difference(metric, metric(clouds[0]), metric(clouds[1]), clouds, ONE)
    np.testing.assert_allclose([found.value, found.low, found.high], [whole, whole - half, whole + half], rtol=1e-9)


def test_the_norm_of_the_mean_is_paired_though_its_interval_is_that_of_the_square(pair):
    found = compare(*pair, metric=["drift_norm"])
    assert set(found.rows["how"]) == {"paired"}
    assert of(found, "drift_norm", 2)["moved"]


def test_metrics_whose_interval_is_made_otherwise_are_unpaired(pair):
    found = compare(*pair, metric=["centred_cosine"])
    assert set(found.rows["how"]) == {"unpaired"}
    a, b = (pair[i].table("centred_cosine", "all").set_index("layer").loc[2] for i in (0, 1))
    row = of(found, "centred_cosine", 2)
    expected = unpaired_difference(b["value"] - a["value"], (a["low"], a["value"], a["high"]), (b["low"], b["value"], b["high"]))
    assert (row["low"], row["high"]) == (expected.low, expected.high)


def test_a_number_without_an_interval_counts_as_it_is():
    found = difference(registry["top_share"], Number(0.1, n=9, d=3), Number(0.4, n=9, d=3), None, ONE)
    assert (found.how, found.least) == ("no interval", pytest.approx(0.3))
    assert np.isnan(difference(registry["top_share"], Number(np.nan, n=9, d=3), Number(0.4, n=9, d=3), None, ONE).value)


def test_models_are_matched_by_name_or_as_told(tmp_path):
    x, mask = corpus(np.random.default_rng(4), 40)
    for name, shift in (("one", 0.0), ("two", 1.0)):
        both = write(tmp_path / "both", [moved(x, shift)], mask, model=name)
    third = write(tmp_path / "third", [moved(x, 2.0)], mask, model="three")
    for step, shift in ((0, 0.0), (10, 0.5)):
        suite = write(tmp_path / "suite", [moved(x, shift)], mask, model="suite", step=step, seed=0)
    other = write(tmp_path / "other", [x], mask, model="three", stack="decoder")
    assert compare(both, both).rows["model_b"].unique().tolist() == ["one", "two"]
    told = compare(both, third, models={"two": "three"})
    assert told.rows[["model_a", "model_b"]].drop_duplicates().to_numpy().tolist() == [["two", "three"]]
    along = compare(suite, suite, models={"suite@0": "suite@10"})
    assert along.rows["model_b"].unique().tolist() == ["suite · step 10 · seed 0"]
    assert compare(suite, suite).rows["model_a"].nunique() == 2
    for sentence, call in {
        "no model in common": lambda: compare(both, third),
        "does not hold 'twoo', did you mean two?": lambda: compare(both, third, models={"twoo": "three"}),
        "at the steps 0, 10; got 7": lambda: compare(suite, suite, models={"suite@7": "suite@0"}),
        "no row of between_cosine in common": lambda: compare(third, other, metric=["between_cosine"]),
        "is not a number of one place": lambda: compare(both, both, metric=["bell"]),
        "as effective_rank/d; got 'effective_rank/n'": lambda: compare(both, both, metric=["effective_rank/n"]),
        "did you mean top_share": lambda: compare(both, both, metric=["top_shar"]),
    }.items():
        with pytest.raises(IsoscopeError, match=sentence.replace("(", "\\(")):
            call()


def test_several_measurements_of_a_model_are_refused(tmp_path):
    x, mask = corpus(np.random.default_rng(5), 40)
    for data in ("f", "g"):
        run = write(tmp_path / "twice", [x], mask, fingerprint=data)
    with pytest.raises(IsoscopeError, match="holds 2 measurements of net"):
        compare(run, run)


def test_a_metric_that_depends_on_n_is_refused_at_different_n(pair, tmp_path):
    """One line in place of its differences; metrics whose interval is about the population are compared all the same."""
    x, mask = corpus(np.random.default_rng(0), 60)
    small = write(tmp_path / "small", [moved(x, 0.3 * i) for i in range(LAYERS)], mask)
    n = [int(run.table("top_share", "all")["n"].iloc[0]) for run in (small, pair[0])]
    found = compare(small, pair[0])
    assert set(found.rows["metric"]) == {"between_cosine"}
    assert len(found.sentences) == 1
    assert found.refused == [
        f"net: {name} is not compared: n differs ({n[0]} and {n[1]}) and this metric depends on n; measure both with --max-tokens {n[0]}."
        for name in ("top_share", "effective_rank/d")
    ]
    nothing = compare(small, pair[0], metric=["top_share"])
    assert nothing.rows.empty
    assert nothing.sentences == []
    assert len(nothing.refused) == 1
    assert nothing.rows_beyond(0.0).empty


def test_nearly_equal_n_are_compared(pair, tmp_path):
    x, mask = corpus(np.random.default_rng(0), 120)
    mask[0, 0] = False
    other = write(tmp_path / "other", [moved(x, 0.3 * i) for i in range(LAYERS)], mask)
    found = compare(pair[0], other)
    assert found.refused == []
    assert set(found.rows["metric"]) == {"between_cosine", "top_share", "effective_rank/d"}
