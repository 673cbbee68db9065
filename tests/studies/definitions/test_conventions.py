"""Conventions are complete: each reading answers a known question, by a metric or by code of its own."""

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.metrics import registry
from isoscope.studies.definitions.analysis import OWN
from isoscope.studies.definitions.conventions import CONVENTIONS, QUESTIONS, find_convention


@pytest.mark.parametrize("source", CONVENTIONS.values(), ids=CONVENTIONS)
def test_every_reading_can_be_computed(source):
    questions = [reading.question for reading in source.readings]
    assert len(set(questions)) == len(questions)
    assert set(questions) <= set(QUESTIONS)
    for reading in source.readings:
        assert reading.metric in registry if reading.metric else (source.name, reading.question) in OWN


def test_a_misspelt_convention_gets_a_suggestion():
    with pytest.raises(IsoscopeError, match="did you mean ethayarajh2019"):
        find_convention("ethayarajh")
