"""Statements 11 and 14: over the layers, the top share of decoders is bell-shaped, that of encoders flat; neighbourhoods are isotropic."""

from __future__ import annotations

import pandas as pd

from isoscope.claims.claim import Section, Verdict
from isoscope.claims.evidence import (
    BELL_HEIGHT,
    FLAT_RANGE,
    LANGUAGE,
    blocks_of_different_n,
    layers_of_different_n,
    mention_left_out,
    model_rows,
    row_estimates,
    rows_by_model,
    rows_by_stack,
    stack_profiles,
)
from isoscope.claims.verdicts import compare_groups, decide_models
from isoscope.estimation.inference import Estimate, greatest_of, least_of, mean_of
from isoscope.estimation.profile import FEWEST_BLOCKS, bell_height

statement_11 = Section("razzhigaev2024", 11)


def require_sink_split(effect: Estimate, rows: pd.DataFrame, *, refuted: bool) -> Estimate:
    """The effect, without its interval if sinks were not split off: a shape with sinks may not be the shape without them.

    An effect that refutes the claim with sinks needs no split.
    """
    if refuted or rows["policy"].eq("body-no-sink").any():
        return effect
    return Estimate(effect.value, note="not known without sinks: measure with --split-body sink")


@statement_11.claim(
    statement="The top share of decoders is bell-shaped over the layers, with and without sink tokens and in both forms of the share.",
    refuted_by="a decoder whose B lies surely below 0.05 under one token policy or in one form",
    needs="three decoders of six blocks or more: `isoscope measure GPT2 OPT SMOLLM --split-body sink --out RUN`",
)
def decoders_are_bell_shaped(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The least B over token policies and both forms of the share, compared with 0.05."""
    effects = {}
    for name, rows in stack_profiles(table, ("bell", "bell_linear"), "decoder").items():
        least = least_of(row_estimates(rows))
        effects[name] = require_sink_split(least, rows, refuted=least.high < BELL_HEIGHT)
    verdict = decide_models(effects, BELL_HEIGHT, measure="B, the least over token policies and forms,", unit="decoder")
    return mention_left_out(verdict, blocks_of_different_n(table, "decoder"))


@statement_11.claim(
    statement="The top share of encoders is flat over the layers, with and without sink tokens and in both forms of the share.",
    refuted_by="an encoder whose largest less smallest share lies surely above 0.1 under one token policy or in one form",
    needs="three encoders of six blocks or more: `isoscope measure BERT ROBERTA MINILM --split-body sink --out RUN`",
)
def encoders_are_flat(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The greatest range over token policies and both forms of the share, compared with 0.1."""
    effects = {}
    for name, rows in stack_profiles(table, ("share_range", "share_range_linear"), "encoder").items():
        greatest = greatest_of(row_estimates(rows))
        effects[name] = require_sink_split(greatest, rows, refuted=greatest.low > FLAT_RANGE)
    measure = "the range of the share over the blocks, the greatest over token policies and forms,"
    verdict = decide_models(effects, FLAT_RANGE, measure=measure, above=False, unit="encoder")
    return mention_left_out(verdict, blocks_of_different_n(table, "encoder"))


@statement_11.claim(
    statement="Decoders are more bell-shaped than encoders.",
    refuted_by="encoders with a surely higher B than decoders",
    needs="four decoders and four encoders of six blocks or more: `isoscope measure MODEL … --out RUN`",
)
def decoders_rise_above_encoders(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """B under all tokens: exact permutation over models."""
    decoders, encoders = (
        {name: rows[rows["policy"].eq("all")] for name, rows in stack_profiles(table, ("bell",), stack).items()}
        for stack in ("decoder", "encoder")
    )
    return compare_groups(decoders, encoders, measure="B under all tokens", names=("decoders", "encoders"))


@statement_11.claim(
    statement="Decoders are bell-shaped whether their last layer is taken before the final norm or after it.",
    refuted_by="a decoder whose B lies surely below 0.05 with the last layer before the final norm, or after it",
    needs="three decoders of six blocks or more with a final norm: `isoscope measure GPT2 OPT SMOLLM --out RUN`",
)
def bell_survives_the_final_norm(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """B under all tokens, before the final norm and with the state after it as the last block; both have the interval of the former."""
    profiles = stack_profiles(table, ("bell",), "decoder")
    hidden, final = (rows_by_stack(model_rows(table, ["top_share"], LANGUAGE, kind=kind)) for kind in ("hidden", "final"))
    blocks = {name: rows[rows["layer"].gt(0)].sort_values("layer") for name, rows in hidden.items() if name in profiles and name in final}
    left_out = layers_of_different_n({name: pd.concat([rows, final[name]]) for name, rows in blocks.items()})
    effects = {}
    for name, rows in blocks.items():
        plain = row_estimates(profiles[name][profiles[name]["policy"].eq("all")])
        if name in left_out or not plain or len(rows) < FEWEST_BLOCKS:
            continue
        before = rows["value"].to_numpy(float)
        after = before.copy()
        after[-1] = float(final[name]["value"].iloc[0])
        effects[name] = least_of([plain[0], plain[0].linear(1, float(bell_height(after) - bell_height(before)))])
    verdict = decide_models(effects, BELL_HEIGHT, measure="B before or after the final norm, whichever is less,", unit="decoder")
    return mention_left_out(verdict, left_out | blocks_of_different_n(table, "decoder"))


SIGNS = {"local_share_excess": -1.0, "local_isoscore_excess": 1.0}
"""Neighbourhoods are more isotropic than a Gaussian's if the first is negative and the second positive."""

statement_14 = Section("razzhigaev2024", 14)


@statement_14.claim(
    statement="Inside a globally anisotropic cloud neighbourhoods are isotropic: more so than in a Gaussian with the same covariance.",
    refuted_by="a model whose neighbourhoods are surely less isotropic than those of that Gaussian, the mean over layers",
    needs="local geometry of three models or more, which is computed on request: `isoscope claims RUN --metric local_share_excess "
    "--metric local_isoscore_excess`",
)
def locally_isotropic(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """Minus the excess of the local top share, and the excess of the local IsoScore, means over layers; the weaker of the two."""
    effects = {}
    for name, rows in rows_by_model(model_rows(table, list(SIGNS))).items():
        layers = {metric: row_estimates(rows[rows["metric"].eq(metric)]) for metric in SIGNS}
        effects[name] = least_of([mean_of(own).linear(SIGNS[metric]) for metric, own in layers.items() if own])
    measure = "how much more isotropic neighbourhoods are than a Gaussian's, by share or IsoScore, whichever is less,"
    return decide_models(effects, measure=measure)
