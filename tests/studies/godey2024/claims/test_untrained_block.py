"""Claims about the untrained block: the dimensions of a head, and the growth of a curve over the norm of the bias."""

import json

import pandas as pd
import pytest

from isoscope.claims import all_claims
from isoscope.studies.godey2024.claims.untrained_block import change_with_bias, head_dimension
from tests.claims.made_rows import BLOCK, KINDS, tables


@pytest.mark.parametrize(
    ("spec", "d"),
    [({"d": 384, "heads": 6}, 64), ({"d": 96, "heads": 8}, 12), ({"d": 96, "heads": 0}, 64), ({"d": 96, "heads": 200}, 64), ({}, 64)],
)
def test_the_dimensions_of_a_head_come_from_the_settings(spec, d):
    assert head_dimension(json.dumps(spec)) == d


def test_growth_is_from_the_smallest_bias_to_the_largest():
    """Two draws that grow by 2 and by 4: mean 3, Student's half width 12.706 · √2 / √2 = 12.706."""
    curve = pd.DataFrame({30.0: [3.0, 5.0], 0.0: [1.0, 1.0], 5.0: [9.0, 9.0]})
    change = change_with_bias(curve)
    assert (change.value, change.low, change.high) == pytest.approx((3.0, 3 - 12.706, 3 + 12.706), abs=1e-3)
    assert change.note == "from N = 0 to 30, over 2 draws"


@pytest.mark.parametrize(("signs", "outcome"), [((1, 1, -1), "holds"), ((1,) * 5, "undecided"), ((1,) * 6, "fails")])
def test_one_sign_refutes_only_if_six_draws_have_it(signs, outcome):
    points = [
        KINDS["block"] | {"model": BLOCK, "seed": seed, "layer": 1, "name": "block_score_mean", "x": x, "y": sign * x, "policy": "all"}
        for seed, sign in enumerate(signs)
        for x in (0.0, 30.0)
    ]
    assert all_claims["score_sign_is_drawn"].decide(*tables(([], points))).outcome == outcome
