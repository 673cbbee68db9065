"""Twins: the role of a network by its stack, its objective and, for rows without one, its name."""

import pandas as pd
import pytest

from isoscope.studies.razzhigaev2024.claims.causal_mask import training_role


@pytest.mark.parametrize(
    ("stack", "model", "spec", "role"),
    [
        ("decoder", "causal-text", "{}", (True, "next")),
        ("decoder", "causal-masked-text", "{}", (True, "masked")),
        ("decoder", "my-twin", None, (True, "masked")),
        ("decoder", "my-twin", '{"objective": "next"}', (True, "next")),
        ("encoder", "masked-text", "{}", (False, "masked")),
    ],
)
def test_the_objective_counts_and_the_name_if_there_is_none(stack, model, spec, role):
    assert training_role(pd.DataFrame({"stack": [stack], "model": [model], "spec": [spec]})) == role
