"""isoscope list prints the same names as JSON and as a table."""

import pytest

from tests.cli.calling import isoscope, read_strict_json


@pytest.mark.parametrize(
    ("what", "name"), [("metrics", "mean_cosine"), ("families", "DeBERTa-v2"), ("sources", "text"), ("figures", "layer_profile")]
)
def test_list(what, name):
    rows = read_strict_json(isoscope("list", what, "--json").worked().out)
    assert name in [row["name"] for row in rows]
    shown = isoscope("list", what).worked().out
    assert all(row["name"] in shown for row in rows)
