"""For every claim a pair of tables as runs would give them: one on which it holds, and one on which it fails."""

from __future__ import annotations

from math import nan

from tests.claims.made_rows import (
    CHARACTERS_ALONE,
    LAYERS,
    LOW,
    OTHER_CHARACTERS,
    POLICIES,
    RISING,
    SIX,
    THREE,
    Made,
    alignment_rows,
    bell_with_final_norm,
    block_curves,
    block_gain,
    block_row,
    character_models,
    dimension_rows,
    drift_on_first_component,
    drifting_models,
    excepted_models,
    head_rows,
    join_tables,
    opposite_heads,
    profile_tables,
    query_and_key_cosines,
    same_models,
    suite_row,
    t5_models,
    three_suites,
    twin_networks,
)

CASES: dict[str, tuple[Made, Made]] = {
    "every_transformer_has_an_anisotropic_layer": (same_models(THREE, "token", RISING), same_models(THREE, "token", LOW)),
    "character_models_have_an_anisotropic_layer": (same_models(THREE, "character", RISING), same_models(THREE, "character", LOW)),
    "only_characters_are_more_anisotropic": (
        character_models(CHARACTERS_ALONE, OTHER_CHARACTERS),
        character_models(OTHER_CHARACTERS, CHARACTERS_ALONE),
    ),
    "t5_decoders_are_extreme": (t5_models(0.95), t5_models(0.6)),
    "speech_is_anisotropic_in_every_layer": (same_models(THREE, "speech", [0.3, 0.5]), same_models(THREE, "speech", [0.1, 0.5])),
    "most_vision_models_have_an_anisotropic_layer": (same_models(SIX, "vision", RISING), same_models(SIX, "vision", LOW)),
    "mit_is_isotropic": (same_models(["mit-b0"], "vision", LOW), same_models(["mit-b0"], "vision", RISING)),
    "vit_is_low": (same_models(["vit-base-patch16"], "vision", [0.1, 0.15]), same_models(["vit-base-patch16"], "vision", [0.1, 0.3])),
    "most_convolutions_are_isotropic": (same_models(SIX, "convolution", LOW), same_models(SIX, "convolution", RISING)),
    "resnet50_is_anisotropic": (same_models(["resnet-50"], "convolution", RISING), same_models(["resnet-50"], "convolution", LOW)),
    "resnet50_falls_with_depth": (
        same_models(["resnet-50"], "convolution", RISING[::-1]),
        same_models(["resnet-50"], "convolution", RISING),
    ),
    "convnext_is_isotropic": (same_models(["convnext-tiny"], "convolution", LOW), same_models(["convnext-tiny"], "convolution", RISING)),
    "drift_explains_token_models": (drifting_models(THREE, "token", 1), drifting_models(THREE, "token", -1)),
    "drift_explains_character_models": (drifting_models(THREE, "character", 1), drifting_models(THREE, "character", -1)),
    "drift_explains_speech_models": (drifting_models(THREE, "speech", 1), drifting_models(THREE, "speech", -1)),
    "drift_explains_vision_models": (drifting_models(THREE, "vision", 1), drifting_models(THREE, "vision", -1)),
    "drift_leaves_out_exceptions": (excepted_models(-1), excepted_models(1)),
    "drift_leaves_out_convolutions": (drifting_models(SIX, "convolution", -1, 60), drifting_models(SIX, "convolution", 1, 60)),
    "centring_leaves_no_cosine": (
        same_models(THREE, "token", LOW, metric="centred_cosine"),
        same_models(THREE, "token", RISING, metric="centred_cosine"),
    ),
    "centring_leaves_all_directions_alike": (
        same_models(THREE, "token", [0.95] * 3, metric="isoscore", null=1.0),
        same_models(THREE, "token", [0.2] * 3, metric="isoscore", null=1.0),
    ),
    "block_raises_cosine": (block_gain(2e-5), block_gain(-2e-5)),
    "norm_fixed_point_exists": (
        ([block_row("norm_fixed_point", 27.7, 0.1), block_row("norm_fixed_point", nan, nan, "block bert pre-LN")], []),
        ([block_row("norm_fixed_point", nan, nan)], []),
    ),
    "norm_fixed_point_is_like_trained_norms": (
        ([block_row("norm_fixed_point", 27.7, 0.1), block_row("trained_norm", 15.0, 0.1)], []),
        ([block_row("norm_fixed_point", 27.7, 0.1), block_row("trained_norm", 2.0, 0.1)], []),
    ),
    "scores_leave_zero": (block_curves({"block_score_offset": (0.0, 0.3)}), block_curves({"block_score_offset": (0.3, 0.1)})),
    "score_sign_is_drawn": (block_curves({"block_score_mean": (0.0, 0.3)}, flip=True), block_curves({"block_score_mean": (0.0, 0.3)})),
    "score_variance_grows": (block_curves({"block_score_sd": (0.01, 0.3)}), block_curves({"block_score_sd": (0.3, 0.1)})),
    "query_and_key_norms_grow": (
        block_curves({"block_query_norm": (0.1, 4.0), "block_key_norm": (0.1, 4.0)}),
        block_curves({"block_query_norm": (0.1, 4.0), "block_key_norm": (4.0, 3.0)}),
    ),
    "queries_and_keys_are_anisotropic_without_bias": (
        ([block_row(f"{kind}_cosine_unbiased", 0.35, 0.01) for kind in ("query", "key")], []),
        ([block_row(f"{kind}_cosine_unbiased", 2e-5, 1e-5) for kind in ("query", "key")], []),
    ),
    "rows_sharpen_with_bias": (
        block_curves({"block_row_max": (0.002, 0.003), "block_row_min": (0.002, 0.001), "block_entropy": (6.2, 5.0)}),
        block_curves({"block_row_max": (0.002, 0.003), "block_row_min": (0.002, 0.001), "block_entropy": (5.0, 6.2)}),
    ),
    "queries_and_keys_align": (three_suites(alignment_rows, 0.05, 0.4), three_suites(alignment_rows, 0.4, 0.02)),
    "first_same_last_opposite": (
        three_suites(lambda name: head_rows(name, "qk_cosine", (0, 0, 0), tilt=-0.6)),
        three_suites(lambda name: head_rows(name, "qk_cosine", (0, 0, 0), tilt=0.6)),
    ),
    "opposite_begins_later": (
        three_suites(lambda name: [suite_row(name, "opposite_later", 0.8, 0.1)]),
        three_suites(lambda name: [suite_row(name, "opposite_later", 0.2, 0.1)]),
    ),
    "opposite_begins_after_8_percent": (three_suites(opposite_heads, 20), three_suites(opposite_heads, 2)),
    "first_component_carries_drift": (
        drift_on_first_component("union", ("query", "key"), 0.8),
        drift_on_first_component("union", ("query", "key"), 0.2),
    ),
    "components_describe_each_other": (
        join_tables(drift_on_first_component("query", ("key",), 0.8), drift_on_first_component("key", ("query",), 0.8)),
        join_tables(drift_on_first_component("query", ("key",), 0.8), drift_on_first_component("key", ("query",), 0.2)),
    ),
    "dot_product_grows": (
        three_suites(lambda name: head_rows(name, "qk_dot", (0.1, -1.0, -3.0))),
        three_suites(lambda name: head_rows(name, "qk_dot", (-3.0, 1.0, 0.1))),
    ),
    "queries_and_keys_become_anisotropic": (
        query_and_key_cosines("between_cosine", 0.1, 0.6),
        query_and_key_cosines("between_cosine", 0.6, 0.5),
    ),
    "alignment_is_the_same_over_seeds": (three_suites(alignment_rows, 0.05, 0.4), three_suites(alignment_rows, 0.4, 0.2)),
    "entropy_falls_in_all_layers": (
        three_suites(lambda name: [suite_row(name, "attention_entropy_change", -1.0 - 0.1 * layer, layer=layer) for layer in LAYERS]),
        three_suites(lambda name: [suite_row(name, "attention_entropy_change", 0.3 - 0.1 * layer, layer=layer) for layer in LAYERS]),
    ),
    "first_layers_stay_sharper": (
        three_suites(lambda name: head_rows(name, "attention_entropy", (4.0, 3.0, 2.0), tilt=0.5)),
        three_suites(lambda name: head_rows(name, "attention_entropy", (4.0, 3.0, 2.0), tilt=-0.5)),
    ),
    "drift_comes_before_sharpness": (
        three_suites(lambda name: [suite_row(name, "precedence", 0.9, 0.05)]),
        three_suites(lambda name: [suite_row(name, "precedence", 0.1, 0.05)]),
    ),
    "averages_outside_the_isotropic_range": (same_models(THREE, "token", RISING), same_models(THREE, "token", LOW)),
    "decoders_are_bell_shaped": (
        profile_tables(THREE, "decoder", 0.3, ("bell", "bell_linear"), POLICIES),
        join_tables(
            profile_tables(THREE, "decoder", 0.3, ("bell", "bell_linear"), POLICIES[:3]),
            profile_tables(THREE, "decoder", -0.2, ("bell",), POLICIES[3:]),
        ),
    ),
    "encoders_are_flat": (
        profile_tables(THREE, "token", 0.05, ("share_range", "share_range_linear"), POLICIES),
        profile_tables(THREE, "token", 0.3, ("share_range", "share_range_linear"), POLICIES),
    ),
    "decoders_rise_above_encoders": (
        join_tables(
            *(
                profile_tables([f"{kind}{i}"], kind, 0.4 * (kind == "decoder") + 0.01 * i, ("bell",), ["all"])
                for kind in ("decoder", "token")
                for i in range(4)
            )
        ),
        join_tables(
            *(
                profile_tables([f"{kind}{i}"], kind, 0.4 * (kind == "token") + 0.01 * i, ("bell",), ["all"])
                for kind in ("decoder", "token")
                for i in range(4)
            )
        ),
    ),
    "bell_survives_the_final_norm": (three_suites(bell_with_final_norm, 0.1, 0.1), three_suites(bell_with_final_norm, 0.1, 0.9)),
    "decoders_grow_anisotropic": (
        three_suites(lambda name: [suite_row(name, "top_share_change", 0.2, 0.1, kind="hidden")]),
        three_suites(lambda name: [suite_row(name, "top_share_change", -0.2, 0.1, kind="hidden")]),
    ),
    "dimension_rises_then_falls": (three_suites(dimension_rows, "holds"), three_suites(dimension_rows, "fails")),
    "locally_isotropic": (
        join_tables(
            same_models(THREE, "token", [-0.1, -0.2], metric="local_share_excess"),
            same_models(THREE, "token", [0.1, 0.2], metric="local_isoscore_excess"),
        ),
        same_models(THREE, "token", [0.1, 0.2], metric="local_share_excess"),
    ),
    "mask_makes_the_bell": (twin_networks(0.4, 0.38, 0.0, "bell"), twin_networks(0.4, 0.02, 0.0, "bell")),
    "mask_makes_the_share": (twin_networks(0.6, 0.58, 0.2, "top_share", 3), twin_networks(0.6, 0.22, 0.2, "top_share", 3)),
}
"""By claim: what it holds on, and what it fails on."""
