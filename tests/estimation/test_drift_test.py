"""Drift and cosine over layers: which cosine compares, p by permutation, pooled models, verdicts."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from isoscope.core.number import POPULATION, THIS_N
from isoscope.core.table import TABLE_COLUMNS, make_table
from isoscope.estimation.drift_test import COLUMNS, DRAWS, association, associations, comparable_over_layers, fisher, list_orders, pool

STEPS = np.random.default_rng(0).normal(size=20).cumsum() * 0.01 + 0.5
CURVES = {"mean_cosine": -STEPS, "between_cosine": STEPS, "drift_ratio": STEPS}


def made(n, metrics=tuple(CURVES)):
    """A model whose drift goes with its cosine between documents and against that over all pairs."""
    where = {"model": "net", "revision": "r", "modality": "images", "family": "convolution", "stack": "backbone", "kind": "hidden"}
    rows = [
        where
        | {"layer": layer, "policy": "all", "metric": metric, "value": CURVES[metric][layer], "n": n[layer], "d": 8}
        | {"interval_about": THIS_N if metric == "mean_cosine" else POPULATION}
        for metric in metrics
        for layer in range(20)
    ]
    return make_table(rows, TABLE_COLUMNS)


@pytest.mark.parametrize(("n", "rho"), [([1000] * 20, -1.0), ([1000] * 10 + [250] * 10, 1.0), ([1000] * 19 + [995], -1.0)])
def test_which_cosine_it_is(n, rho):
    assert associations(made(n)).loc[0, "difference"] == pytest.approx(rho)


def test_a_model_without_the_other_is_named():
    rows, left = comparable_over_layers(made([1000] * 10 + [250] * 10, ("mean_cosine", "drift_ratio")))
    assert set(rows["metric"]) == {"mean_cosine", "drift_ratio"}
    assert left == {"net": "n differs between layers (250 to 1,000) and mean_cosine depends on n; measure between_cosine too"}


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def walks(rng, layers=13):
    return rng.standard_normal((2, layers)).cumsum(axis=1)


def test_the_published_numbers_are_those_of_scipy(rng):
    x, y = walks(rng)
    x[4] = x[3]  # a tie
    found = association(x, y)
    monotone, linear = stats.spearmanr(x, y), stats.pearsonr(x, y)
    assert (found.spearman, found.spearman_p) == pytest.approx((monotone.statistic, monotone.pvalue), rel=1e-12)
    assert (found.pearson, found.pearson_p) == pytest.approx((linear.statistic, linear.pvalue), rel=1e-9)
    assert (found.layers, found.differences, found.note) == (13, 12, "")


def test_the_difference_is_spearman_of_differences(rng):
    x, y = walks(rng)
    assert association(x, y).difference == pytest.approx(stats.spearmanr(np.diff(x), np.diff(y)).statistic, abs=1e-12)


def test_few_differences_are_permuted_exactly(rng):
    x, y = walks(rng, 7)
    dx, dy = np.diff(x), np.diff(y)
    truth = abs(stats.spearmanr(dx, dy).statistic)
    every = [abs(stats.spearmanr(order, dy).statistic) for order in itertools.permutations(dx)]
    assert association(x, y).p == pytest.approx(np.mean([value >= truth - 1e-12 for value in every]), abs=1e-15)


def test_many_are_drawn_with_a_seed_and_count_themselves(rng):
    x, y = walks(rng, 20)
    found = association(x, y)
    assert found.p == association(x, y).p
    assert found.p != association(x, y, seed=1).p
    assert association(x, 2 * x).p == 1 / (DRAWS + 1)
    reference = stats.permutation_test(
        (np.diff(x),),
        lambda dx: stats.spearmanr(dx, np.diff(y)).statistic,
        permutation_type="pairings",
        n_resamples=2_000,
        rng=np.random.default_rng(0),
    )
    assert found.p == pytest.approx(reference.pvalue, abs=0.05)


def test_no_difference_is_taken_across_a_seam(rng):
    x, y = walks(rng, 12)
    stacks = ["encoder"] * 7 + ["decoder"] * 5
    found = association(x, y, stacks)
    dx, dy = (np.concatenate([np.diff(v[:7]), np.diff(v[7:])]) for v in (x, y))
    assert found.differences == 10
    assert found.difference == pytest.approx(stats.spearmanr(dx, dy).statistic, abs=1e-12)
    assert found.spearman == association(x, y).spearman, "as published, the stacks are one row"


def test_permutations_stay_within_a_stack():
    exact, whole = list_orders((3, 2), 0)
    assert (len(exact), whole) == (12, True)
    drawn, whole = list_orders((12, 4), 0)
    assert (drawn.shape, whole) == ((DRAWS, 16), False)
    for orders, sizes in ((exact, (3, 2)), (drawn, (12, 4))):
        assert (np.sort(orders[:, : sizes[0]], axis=1) == np.arange(sizes[0])).all()
        assert (np.sort(orders[:, sizes[0] :], axis=1) == np.arange(sizes[0], sum(sizes))).all()


def test_two_stacks_that_differ_are_no_evidence(rng):
    """An encoder that rises and a decoder that falls, in both series, with nothing else in common."""
    stacks = np.repeat(["encoder", "decoder"], 10)
    slope = np.where(stacks == "encoder", 1.0, -1.0)
    found = [association(*(slope * 3 + rng.standard_normal((2, 20))).cumsum(axis=1), stacks) for _ in range(200)]
    assert np.mean([one.difference > 0.5 for one in found]) > 0.9
    assert np.mean([one.p < 0.05 for one in found]) < 0.1


def test_of_random_walks_a_third_pass_the_published_test_and_a_twentieth_ours(rng):
    found = [association(*walks(rng)) for _ in range(1_500)]
    assert 0.29 < np.mean([one.spearman_p < 0.05 for one in found]) < 0.38
    assert 0.033 < np.mean([one.p < 0.05 for one in found]) < 0.067


def test_walks_that_do_go_together_are_found(rng):
    steps = rng.standard_normal((200, 2, 24))
    steps[:, 1] = 0.8 * steps[:, 0] + 0.6 * steps[:, 1]
    assert np.mean([association(*pair.cumsum(axis=1)).p < 0.05 for pair in steps]) > 0.9


@pytest.mark.parametrize(
    ("x", "y", "note"),
    [
        ([], [], "fewer than 3 layers"),
        ([1.0], [2.0], "fewer than 3 layers"),
        ([1.0, 2.0], [2.0, 1.0], "fewer than 3 layers"),
        ([1.0, 2.0, 4.0], [2.0, 1.0, 5.0], "fewer than 3 differences"),
        ([3.0] * 13, list(range(13)), "the values are constant"),
        (list(range(13)), np.arange(13.0) ** 2, "the differences are constant"),
        ([1.0, math.nan, 2.0], [1.0, 2.0, 3.0], "1 layer without a value left out; fewer than 3 layers"),
    ],
)
def test_what_cannot_be_said_is_not_and_why(x, y, note):
    found = association(x, y)
    assert found.note == note
    assert math.isnan(found.difference)
    assert math.isnan(found.p)


def test_layers_without_a_value_are_left_out(rng):
    x, y = walks(rng, 14)
    gap = x.copy()
    gap[5], y[5] = np.nan, np.inf
    found, truth = association(gap, y), association(np.delete(x, 5), np.delete(y, 5))
    assert (found.spearman, found.difference, found.p, found.layers) == (truth.spearman, truth.difference, truth.p, 13)
    assert found.note == "1 layer without a value left out"


def test_pooling_by_hand():
    """Student's interval over three models that differ; DerSimonian and Laird say how much."""
    z, v = np.array([0.2, 0.9, 0.5]), np.array([0.1, 0.05, 0.2])
    w = 1 / v
    q = (w * (z - (w * z).sum() / w.sum()) ** 2).sum()
    tau2 = (q - 2) / (w.sum() - (w**2).sum() / w.sum())
    mean, error = z.mean(), z.std(ddof=1) / 3**0.5
    found = pool(z, v)
    assert (found.tau2, found.i2) == pytest.approx((tau2, (q - 2) / q))
    assert tau2 > 0
    assert found.z == pytest.approx(mean)
    assert found.p == pytest.approx(stats.ttest_1samp(z, 0).pvalue)
    assert np.arctanh([found.rho, found.low, found.high]) == pytest.approx([mean, mean - 4.302653 * error, mean + 4.302653 * error])


def test_models_that_agree_by_chance_keep_the_error_within_each():
    """Three models with the same ρ: the interval is that of a fixed effect, and never a point."""
    found, error = pool([0.5] * 3, [0.1] * 3), (0.1 / 3) ** 0.5
    assert np.arctanh([found.low, found.high]) == pytest.approx([0.5 - 1.959964 * error, 0.5 + 1.959964 * error])
    assert found.p == pytest.approx(2 * stats.norm.sf(0.5 / error))


def test_pooling_none_and_one():
    assert math.isnan(pool([], []).rho)
    one = pool([0.5], [0.1])
    assert (one.models, one.tau2, one.i2) == (1, 0.0, 0.0)
    assert one.rho == pytest.approx(math.tanh(0.5))
    assert math.isfinite(fisher(1.0, 12)[0])
    assert fisher(-1.0, 12)[0] == -fisher(1.0, 12)[0]


@pytest.mark.parametrize(("models", "spread", "least"), [(3, 0.0, 0.93), (3, 0.6, 0.93), (12, 0.3, 0.92)])
def test_pooled_intervals_cover(rng, models, spread, least):
    centre, layers = 0.0 if spread else 0.5, 24  # where models differ, ρ and Fisher's z have the same centre only at 0
    truth = 6 / math.pi * math.asin(math.tanh(centre) / 2)  # Spearman's ρ of a normal pair
    covered = []
    for _ in range(500):
        r = np.tanh(centre + spread * rng.standard_normal(models))[:, None]
        x, noise = rng.standard_normal((2, models, layers))
        ranks = [stats.rankdata(v, axis=1) - (layers + 1) / 2 for v in (x, r * x + np.sqrt(1 - r**2) * noise)]
        rho = (ranks[0] * ranks[1]).sum(1) / np.sqrt((ranks[0] ** 2).sum(1) * (ranks[1] ** 2).sum(1))
        found = pool(*zip(*(fisher(float(one), layers) for one in rho), strict=True))
        covered.append(found.low <= truth <= found.high)
    assert np.mean(covered) > least


def rows_of(model, series, *, stack="encoder", family="encoder", modality="text", **more):
    """Table rows of hidden states: `series` is metric: values by layer."""
    site = {"model": model, "revision": "main", "modality": modality, "family": family, "stack": stack, "kind": "hidden", "policy": "all"}
    return [site | more | {"layer": i, "metric": m, "value": float(v)} for m, values in series.items() for i, v in enumerate(values)]


def moved_together(rng, layers=13):
    steps = rng.standard_normal((2, layers))
    return {"mean_cosine": steps[0].cumsum(), "drift_norm": (steps[0] + 0.2 * steps[1]).cumsum(), "drift_ratio": steps[1].cumsum()}


def test_the_table_of_associations(rng):
    series = {name: moved_together(rng) for name in ("a", "b", "c", "untrained:c")}
    short = {metric: values[:7] for metric, values in moved_together(rng).items()}
    rows = [row for name, own in series.items() for row in rows_of(name, own)] + rows_of("short", short)
    table = make_table(rows, TABLE_COLUMNS).sample(frac=1, random_state=0)  # the order of rows says nothing
    found = associations(table)
    assert list(found.columns) == list(COLUMNS)
    own = found[(found["model"] == "b") & (found["predictor"] == "drift_norm")].iloc[0]
    truth = association(series["b"]["drift_norm"], series["b"]["mean_cosine"])
    assert (own["spearman_p"], own["difference"], own["p"]) == (truth.spearman_p, truth.difference, truth.p)
    assert own["adjusted_p"] == pytest.approx(min(1, 4 * truth.p)), "four models were tried: one of five has too few layers"
    assert own["verdict"] == "holds"
    assert set(found.loc[found["model"] == "short", "verdict"]) == {"no verdict: fewer than 12 layers"}
    whole = found[found["model"].isna() & (found["predictor"] == "drift_norm")].iloc[0]
    pairs = [fisher(association(own["drift_norm"], own["mean_cosine"]).difference, 12) for own in list(series.values())[:3]]
    pooled = pool(*zip(*pairs, strict=True))
    assert (whole["models"], whole["difference"], whole["low"]) == (3, pooled.rho, pooled.low)
    assert (whole["group"], whole["verdict"]) == ("token", "holds")


def test_stacks_are_one_row_and_differences_know_the_seam(rng):
    first, second = moved_together(rng), moved_together(rng, 5)
    rows = rows_of("t5", second, stack="decoder") + rows_of("t5", first, stack="encoder")
    found = associations(make_table(rows, TABLE_COLUMNS))
    own = found[found["model"].notna() & (found["predictor"] == "drift_norm")].iloc[0]
    both = {metric: np.concatenate([first[metric], second[metric]]) for metric in first}
    truth = association(both["drift_norm"], both["mean_cosine"], ["a"] * 13 + ["b"] * 5)
    assert (own["layers"], own["spearman"], own["difference"]) == (18, truth.spearman, truth.difference)


def test_seeds_of_one_model_are_one_model(rng):
    rows = [row for seed in range(4) for row in rows_of("a", moved_together(rng), seed=seed, revision=f"seed{seed}")]
    found = associations(make_table(rows, TABLE_COLUMNS))
    whole = found[found["model"].isna()]
    assert found["model"].notna().sum() == 8
    assert set(whole["models"]) == {1}
    assert set(whole["verdict"]) == {"no verdict: fewer than 3 models of 12 layers"}


def test_groups_are_not_mixed_and_what_is_no_model_is_left_out(rng):
    rows = rows_of("bert", moved_together(rng)) + rows_of("resnet", moved_together(rng), modality="images", family="convolution")
    rows += rows_of("matrix", moved_together(rng), modality=None, family=None)
    rows += [row | {"kind": "map"} for row in rows_of("resnet", moved_together(rng), modality="images", family="convolution")]
    found = associations(make_table(rows, TABLE_COLUMNS))
    assert found[["group", "model"]].drop_duplicates().fillna("").to_numpy().tolist() == [
        ["token", "bert"],
        ["token", ""],
        ["convolution", "resnet"],
        ["convolution", ""],
    ]
    assert found["layers"].dropna().unique().tolist() == [13]


def test_a_metric_that_is_not_there_is_no_predictor(rng):
    table = make_table(rows_of("a", moved_together(rng)), TABLE_COLUMNS)
    assert set(associations(table[table["metric"] != "drift_norm"])["predictor"]) == {"drift_ratio"}
    assert associations(table[table["metric"] != "mean_cosine"]).empty
    assert associations(make_table([], TABLE_COLUMNS)).empty
    assert isinstance(associations(make_table([], TABLE_COLUMNS)), pd.DataFrame)
