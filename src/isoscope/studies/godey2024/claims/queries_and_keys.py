"""Statements 8 and 9: in training, mean queries and keys align and grow, and then attention sharpens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from isoscope.claims.claim import Finding, Outcome, Section, Verdict
from isoscope.claims.deciding import joint_outcome
from isoscope.claims.evidence import (
    COSINES,
    LeftOut,
    RowsByName,
    cosine_thresholds,
    greatest_layer,
    mention_left_out,
    outer_thirds,
    row_estimates,
    rows_by_stack,
    split_comparable,
    steps_of_different_n,
)
from isoscope.claims.suite_evidence import checkpoint_rows, final_rows, mean_over_seeds, seed_means, suite_rows
from isoscope.claims.verdicts import decide_findings, decide_models
from isoscope.core.model_groups import list_suites
from isoscope.core.numerics import LEVEL
from isoscope.core.wording import format_count, format_p_value
from isoscope.estimation.inference import Estimate, clopper_pearson, hochberg, holm, least_of, sign_test
from isoscope.studies.training_dynamics.alignment import alignment_outcome, surely_falls
from isoscope.studies.training_dynamics.onset import Track, onset, precedence

HEAD = ["seed", "layer", "head"]


def first_and_last(table: pd.DataFrame, metric: str, *, kind: str, absolute: bool = False) -> RowsByName:
    """By suite, one row per seed, layer and head with the values at the `first` and the `last` step; `absolute` drops their signs."""
    rows = checkpoint_rows(table, metric, kind)
    by_suite: RowsByName = {}
    for name, own in rows_by_stack(rows[rows["model"].isin(list_suites(rows))]).items():
        values = own.assign(value=own["value"].abs() if absolute else own["value"], seed=own["seed"].fillna(-1))
        wide = values.pivot_table(index=HEAD, columns="step", values="value", dropna=False)
        ends = wide[[wide.columns.min(), wide.columns.max()]].set_axis(["first", "last"], axis=1).dropna().reset_index()
        if len(ends):
            by_suite[name] = ends
    return by_suite


def head_onsets(table: pd.DataFrame, metric: str) -> RowsByName:
    """By suite, one row per seed, layer and head: the step at which a number begins to change (`onset`), its `end`, and the last `step`."""
    rows = checkpoint_rows(table, metric, "attention")
    rows = rows[rows["head"].notna() & rows["step"].notna()].assign(seed=rows["seed"].fillna(-1)).sort_values("step", kind="stable")
    by_suite: RowsByName = {}
    for name, own in rows_by_stack(rows).items():
        heads = []
        for place, points in own.groupby(HEAD):
            track = Track(*points[["step", "value", "low", "high"]].to_numpy(float).T)
            heads.append((*place, onset(track).value, track.values[-1], track.steps[-1]))
        by_suite[name] = pd.DataFrame(heads, columns=[*HEAD, "onset", "end", "step"])
    return by_suite


def drift_along_components(table: pd.DataFrame, series: pd.DataFrame, basis: str, kinds: Sequence[str], first: int) -> RowsByName:
    """By suite, one row per head and kind at the last step: the share of ‖mean‖² along the first components of a basis, as `value`."""
    along = series[series["name"].eq(f"mean_along_{basis}") & series["kind"].isin(list(kinds)) & series["x"].le(first)]
    keys = ["model", "stack", "kind", *HEAD, "step"]
    norms = table[table["metric"].eq("drift_norm") & table["kind"].isin(list(kinds)) & table["head"].notna() & table["policy"].eq("all")]
    by_suite: RowsByName = {}
    for name, points in rows_by_stack(along).items():
        last = points[points["step"].eq(points["step"].max())]
        squares = last.assign(y=last["y"] ** 2).groupby(keys, dropna=False)["y"].sum().reset_index()
        heads = squares.merge(norms[[*keys, "value"]].drop_duplicates(keys), on=keys)
        heads = heads[heads["value"] > 0]
        if len(heads):
            by_suite[name] = heads.assign(value=heads["y"] / heads["value"] ** 2)
    return by_suite


EARLY = 0.08
"""The part of all steps after which heads in opposite directions are claimed to begin."""

SWEEP = "`isoscope sweep SUITE --taps hidden,attention --out RUN`"

statement_8 = Section("godey2024", 8, f"three trainings or more with their dynamics: {SWEEP}")


def comparable_suites(table: pd.DataFrame, rows: RowsByName) -> tuple[RowsByName, LeftOut]:
    """The suites whose steps have equal n, and those left out because cos(Q̄, K̄) depends on n."""
    return split_comparable(rows, steps_of_different_n(table, "qk_cosine", "attention"))


def first_and_last_rows(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of the first step, and those of the last."""
    return rows[rows["step"].eq(rows["step"].min())], rows[rows["step"].eq(rows["step"].max())]


@statement_8.claim(
    statement="In training mean queries and mean keys align, in the same or opposite directions, more than those of different heads.",
    refuted_by="a training in which T = mean cos²(Q̄, K̄) surely falls, or ends surely below that of different heads",
)
def queries_and_keys_align(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """T at the last step less that of other heads of the layer; p of all layers at once with Holm over suites, and T up in every seed."""
    by_suite, tests, shuffled = (suite_rows(table, name) for name in ("alignment", "alignment_p", "alignment_shuffled"))
    by_suite, left_out = comparable_suites(table, by_suite)
    by_suite = {name: rows for name, rows in by_suite.items() if rows["null"].notna().any() and len(rows["step"].unique()) > 1}
    p = []
    for name in by_suite:
        of_all_layers = tests[name][tests[name]["layer"].isna()].sort_values("step")["value"] if name in tests else pd.Series(dtype=float)
        p.append(float(of_all_layers.iloc[-1]) if len(of_all_layers) else np.nan)
    ends = {name: first_and_last_rows(rows) for name, rows in by_suite.items()}
    excess = {name: mean_over_seeds(seed_means(last, last["value"] - last["null"])) for name, (_, last) in ends.items()}
    changes = []
    for first, last in ends.values():
        # By layer, so that a layer that is missing at one end does not shift the mean of the other.
        layers = last.merge(first, on=["seed", "layer"], suffixes=("", "_first"))
        changes.append(mean_over_seeds(seed_means(layers, layers["value"] - layers["value_first"])))
    fell = surely_falls(list(zip(changes, excess.values(), strict=True)))
    findings = []
    for (name, (first, last)), adjusted, down in zip(ends.items(), holm(np.array(p)), fell, strict=True):
        moves = (seed_means(last) - seed_means(first)).dropna()
        effect = excess[name]
        control = f", {shuffled[name]['value'].mean():.2g} with labels shuffled" if name in shuffled else ""
        note = f"T {last['value'].mean():.2g}, other heads {last['null'].mean():.2g}{control}; up in {int((moves > 0).sum())} of "
        note += f"{format_count(len(moves), 'seed')}, {format_p_value(adjusted)}, {effect.note}"
        findings.append(Finding(name, alignment_outcome(adjusted, list(moves), down), effect.value, effect.low, effect.high, 0.0, note))
    measure = "mean queries and keys align more than those of other heads and more than at the start"
    return mention_left_out(decide_findings(findings, measure=measure), left_out)


@statement_8.claim(
    statement="That mean queries and keys align is the same over seeds.",
    refuted_by="a training in which T = mean cos²(Q̄, K̄) falls in more seeds than chance explains, with all trainings counted",
    needs=f"three trainings of five seeds or more: {SWEEP}",
)
def alignment_is_the_same_over_seeds(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The share of seeds in which T, the mean over layers, is higher at the end than at the start: sign test, at least five of five."""
    by_suite, left_out = comparable_suites(table, suite_rows(table, "alignment"))
    ends = {name: first_and_last_rows(rows) for name, rows in by_suite.items()}
    moves = {name: (seed_means(last) - seed_means(first)).dropna() for name, (first, last) in ends.items()}
    down = [sign_test(int((own <= 0).sum()), len(own), one_sided=True) for own in moves.values()]
    findings = []
    # One training that falls refutes the claim, so chance has a try in each of them. For it to hold, all of them must rise.
    for (name, own), p in zip(moves.items(), hochberg(np.array(down)), strict=True):
        wins, n = int((own > 0).sum()), len(own)
        rose = sign_test(wins, n, one_sided=True) < LEVEL
        outcome: Outcome = "holds" if rose else "fails" if p < LEVEL else "undecided"
        note = f"up in {wins} of {format_count(n, 'seed')}{'' if n >= 5 else ', at least five are needed'}"
        findings.append(Finding(name, outcome, wins / n, *clopper_pearson(wins, n), 0.5, note))
    return mention_left_out(decide_findings(findings, measure="alignment rises in the seeds, by a sign test,"), left_out)


@statement_8.claim(
    statement="Mean queries and keys end in the same direction in the first layers and in opposite directions in the last.",
    refuted_by="a model whose first third of layers surely ends opposite, or whose last third surely ends the same way",
    needs="the attention of three trained models or more: `isoscope measure MODEL MODEL MODEL --taps hidden,attention --out RUN`",
)
def first_same_last_opposite(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean cos(Q̄, K̄) of the first third of layers, and minus that of the last third: the weaker of the two."""
    effects = {}
    for name, rows in final_rows(table, "qk_cosine").items():
        first, last = (mean_over_seeds(seed_means(third)) for third in outer_thirds(rows))
        effects[name] = least_of([first, last.linear(-1)])
    return decide_models(effects, measure="cos(Q̄, K̄) of the first third of layers, or minus that of the last, whichever is less,")


@statement_8.claim(
    statement="Heads that end in opposite directions begin to align later than heads that end in the same direction.",
    refuted_by="a training in which they begin surely earlier",
    needs=f"three trainings of two seeds or more with heads of both kinds: {SWEEP}",
)
def opposite_begins_later(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """How often a head that ends opposite begins after one that ends the same way, over seeds, compared with one half."""
    by_suite, left_out = comparable_suites(table, suite_rows(table, "opposite_later"))
    effects = {name: row_estimates(rows)[0] for name, rows in by_suite.items()}
    measure = "how often an opposite head begins after one of the same direction"
    return mention_left_out(decide_models(effects, 0.5, measure=measure, unit="suite"), left_out)


@statement_8.claim(
    statement="Heads that end in opposite directions begin to align only after 8 % of the steps.",
    refuted_by="a training in which surely more than half of them begin before",
    needs=f"three trainings with heads that end in opposite directions: {SWEEP}",
)
def opposite_begins_after_8_percent(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The share of heads beyond chance in opposite directions whose onset comes later than that, over seeds, compared with one half."""
    onsets, left_out = comparable_suites(table, head_onsets(table, "qk_cosine"))
    levels, effects = suite_rows(table, "qk_chance"), {}
    for name, rows in onsets.items():
        if name not in levels:
            continue
        opposite = rows[rows["end"].lt(-float(levels[name]["value"].iloc[0])) & rows["onset"].notna()]
        begins = opposite.pivot_table(index="seed", columns=["layer", "head"], values="onset").to_numpy(float)
        if begins.size:
            edge = np.nextafter(EARLY * float(rows["step"].max()), np.inf)  # a head that begins at that step does not begin after it
            order = precedence(np.full(begins.shape, edge), begins)
            note = f"{len(opposite)} heads of {format_count(len(begins), 'seed')}"
            effects[name] = Estimate(order.value, order.low, order.high, note, max(order.units - 1, 1))
    if onsets and not effects:
        return Verdict("undecided", "No head of these trainings ends in opposite directions beyond chance with an onset of its own.")
    measure = "the share of opposite heads that begin after 8 % of the steps"
    return mention_left_out(decide_models(effects, 0.5, measure=measure, unit="suite"), left_out)


@statement_8.claim(
    statement="The first component of the basis that all steps share carries the drift of queries and keys.",
    refuted_by="a training whose first component carries surely less than half of the mean vectors' squared length at the end",
)
def first_component_carries_drift(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The share of ‖Q̄‖² and ‖K̄‖² along the first component of the union of queries and keys, at the last step."""
    shares = drift_along_components(table, series, "union", ["query", "key"], 1)
    effects = {name: mean_over_seeds(seed_means(rows)) for name, rows in shares.items()}
    return decide_models(effects, 0.5, measure="the share of the drift along the first component", unit="suite")


@statement_8.claim(
    statement="The first two components of queries alone describe the drift of keys, and those of keys that of queries.",
    refuted_by="a training in which they carry surely less than half of the other's squared mean at the end",
)
def components_describe_each_other(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The share of ‖K̄‖² in the components of queries and of ‖Q̄‖² in those of keys, at the last step; the weaker of the two."""
    keys, queries = (drift_along_components(table, series, *pair, 2) for pair in (("query", ["key"]), ("key", ["query"])))
    effects = {name: least_of([mean_over_seeds(seed_means(side[name])) for side in (keys, queries)]) for name in keys if name in queries}
    return decide_models(effects, 0.5, measure="the share of one's drift in the other's components, whichever is less,", unit="suite")


@statement_8.claim(
    statement="|⟨Q̄, K̄⟩| grows in training.",
    refuted_by="a training in which its mean over heads surely falls from the first step to the last",
    needs=f"three trainings or more: {SWEEP}",
)
def dot_product_grows(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean over heads of |⟨Q̄, K̄⟩|, last step less first, in logit units."""
    by_suite = first_and_last(table, "qk_dot", kind="attention", absolute=True)
    effects = {name: mean_over_seeds(seed_means(rows, rows["last"] - rows["first"])) for name, rows in by_suite.items()}
    return decide_models(effects, measure="the change of |⟨Q̄, K̄⟩|", unit="suite")


@statement_8.claim(
    statement="Queries and keys become anisotropic in training: their cosine rises, and ends above the threshold.",
    refuted_by="a training in which the cosine of queries or keys surely falls, or ends surely below the threshold",
    needs=f"three trainings or more: {SWEEP}",
)
def queries_and_keys_become_anisotropic(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean over heads of the cosine of queries and of keys: its change, and where it ends; the weaker of queries and keys."""
    metric = COSINES[0]
    queries, keys = (first_and_last(table, metric, kind=kind) for kind in ("query", "key"))
    widths = table[table["kind"].eq("query") & table["metric"].eq(metric)].groupby("model")["d"].max()
    rises, ends, thresholds = {}, {}, {}
    for name in [name for name in queries if name in keys]:
        sides = queries[name], keys[name]
        rises[name] = least_of([mean_over_seeds(seed_means(side, side["last"] - side["first"])) for side in sides])
        ends[name] = least_of([mean_over_seeds(seed_means(side, side["last"])) for side in sides])
        # A suite of several stacks is named "model (stack)", and widths are by model.
        thresholds[name] = cosine_thresholds(int(widths[name if name in widths.index else name.rpartition(" (")[0]]))
    rise = decide_models(rises, measure="the change of the cosine of queries or keys, whichever is less,", unit="suite")
    end = decide_models(ends, thresholds, measure="the cosine of queries or keys at the end, whichever is less,", unit="suite")
    if not rise.findings:
        return rise
    outcome = joint_outcome([rise.outcome, end.outcome])
    weaker = end if end.outcome == outcome != rise.outcome else rise
    return replace(weaker, outcome=outcome, sentence=f"{rise.sentence} {end.sentence}")


statement_9 = Section("godey2024", 9, f"three trainings or more with their dynamics: {SWEEP}")


@statement_9.claim(
    statement="In training the entropy of attention falls in all layers.",
    refuted_by="a training with a layer whose entropy surely rises from the first step to the last",
)
def entropy_falls_in_all_layers(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The change of the entropy in the layer where it falls least."""
    by_suite = {name: rows[rows["layer"].notna()] for name, rows in suite_rows(table, "attention_entropy_change").items()}
    effects = {name: greatest_layer(rows) for name, rows in by_suite.items() if len(rows)}
    return decide_models(effects, measure="the change of entropy in the layer where it falls least", above=False, unit="suite")


@statement_9.claim(
    statement="Attention stays sharper in the first layers than in the last.",
    refuted_by="a model whose first third of layers ends with surely more entropy than its last third",
    needs="the attention of three trained models or more: `isoscope measure MODEL MODEL MODEL --taps hidden,attention --out RUN`",
)
def first_layers_stay_sharper(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean entropy of the first third of layers less that of the last, in nats."""
    effects = {}
    for name, rows in final_rows(table, "attention_entropy").items():
        first, last = (seed_means(third) for third in outer_thirds(rows))
        effects[name] = mean_over_seeds(first - last)
    return decide_models(effects, measure="the entropy of the first third of layers less that of the last", above=False)


@statement_9.claim(
    statement="Attention sharpens after its queries and keys have begun to drift: in most heads drift comes first.",
    refuted_by="a training in which surely more than half of the heads sharpen first",
)
def drift_comes_before_sharpness(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The share of heads whose drift begins before their sharpening, compared with one half."""
    by_suite = {name: rows[rows["seed"].isna()] for name, rows in suite_rows(table, "precedence").items()}
    effects = {name: row_estimates(rows)[0] for name, rows in by_suite.items() if len(rows)}
    return decide_models(effects, 0.5, measure="the share of heads whose drift begins before their sharpening", unit="suite")
