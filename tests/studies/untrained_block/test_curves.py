"""The names of curves and numbers: each has one meaning, and every name that figures, sentences and claims look up is among them."""

import re
from pathlib import Path

import isoscope
from isoscope.core.study import studies
from isoscope.studies.untrained_block.curves import CURVES, MEANINGS, NUMBERS, OTHERS

STUDIES = Path(isoscope.__file__).parent / "studies"


def test_a_name_has_one_meaning():
    assert len(MEANINGS) == len(CURVES) + len(OTHERS) + len(NUMBERS)
    assert len(set(MEANINGS.values())) == len(MEANINGS)
    assert {name: studies["untrained_block"].meaning(name) for name in (*MEANINGS, "mean_cosine")} == MEANINGS | {"mean_cosine": None}


def test_every_name_that_is_looked_up_is_kept():
    """A curve that a figure or a claim asks for under another name would be drawn empty, or left undecided, without a word."""
    figures = (STUDIES / "untrained_block" / "figures.py").read_text("utf-8")
    claims = [path.read_text("utf-8") for path in STUDIES.glob("godey2024/claims/*.py")]
    asked = set(re.findall(r'"(block_\w+)"', "".join([figures, *claims])))
    assert len(asked) > 15
    assert asked <= set(MEANINGS)
