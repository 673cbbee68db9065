"""The token policies of panels."""

from __future__ import annotations

import json

import pandas as pd

from isoscope.charts.panels import arrange_panels, list_policies, title_by_policy
from isoscope.figures import figures
from tests.figures.made_table import made_table


def test_policies_come_in_their_standard_order():
    table, _ = made_table()
    shuffled = pd.concat([table[table["policy"] == name] for name in ("body", "all", "no-special")])
    assert list_policies(pd.concat([shuffled.head(1).assign(policy="sink"), shuffled])) == ["all", "no-special", "body", "sink"]


def test_titles_are_quoted_not_evaluated():
    text = title_by_policy({"all": ['"] + alert(1) + ["', "layer 3"]}).to_dict()["text"]["expr"]
    assert text.endswith("[policy] || ''")
    assert json.loads(text.removesuffix("[policy] || ''")) == {"all": ['"] + alert(1) + ["', "layer 3"]}


def test_the_first_policy_is_the_one_printed():
    tables = made_table()
    spec = figures["drift_and_cosine"].draw(*tables).to_dict()
    assert spec["params"] == [{"name": "policy", "value": "all"}]
    assert arrange_panels([], tables[0]) is None
