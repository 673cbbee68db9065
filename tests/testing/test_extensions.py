"""The checks of figures, claims, families and sources name what is broken, and pass what is not."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from isoscope.claims.claim import Claim, Finding, Verdict
from isoscope.core.errors import IsoscopeError
from isoscope.core.figure import Figure
from isoscope.core.source import Item, SourceKind
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.models.loading.family import RANDOM, Family, Stack
from isoscope.testing import check_claim, check_family, check_figure, check_source

rng = np.random.default_rng(0)
TABLES = make_table([{"model": "m", "metric": "mean_norm", "value": 1.0}], TABLE_COLUMNS), make_table([], SERIES_COLUMNS)


class Chart:
    """The part of an Altair chart that the check needs."""

    def __init__(self, **spec):
        self.to_dict = lambda: spec


def draw(table, series):
    return Chart(rows=len(table)) if len(table) else None


def draw_and_change(table, series):
    if len(table):
        table.loc[0, "value"] = 2.0
    return draw(table, series)


BROKEN_FIGURES = {
    "title is empty": Figure("f", " ", "A caption.", draw),
    "end with a full stop": Figure("f", "T", "A caption", draw),
    "from empty tables": Figure("f", "T", "A caption.", lambda table, series: Chart()),
    "draws nothing": Figure("f", "T", "A caption.", lambda table, series: None),
    "JSON does not have": Figure("f", "T", "A caption.", lambda table, series: Chart(x=np.nan) if len(table) else None),
    "differs when it is drawn again": Figure("f", "T", "A caption.", lambda table, series: Chart(x=rng.random()) if len(table) else None),
    "changes a table": Figure("f", "T", "A caption.", draw_and_change),
    "is not a figure": draw,
}


@pytest.mark.parametrize(("sentence", "broken"), BROKEN_FIGURES.items(), ids=BROKEN_FIGURES)
def test_a_broken_figure_is_told_what_is_broken(sentence, broken):
    with pytest.raises(AssertionError, match=sentence):
        check_figure(broken, TABLES)


def test_the_figure_that_is_not_broken():
    check_figure(Figure("f", "T", "A caption.", draw), TABLES)


def claimed(outcome="holds", said="It is so.", findings=None, needs="a look", empty=None, **changed):
    """A claim that keeps the contract, except for what is changed."""
    found = (Finding("m", "holds", 1.0, 0.9, 1.1, 0.5),) if findings is None else findings

    def decide(table, series):
        if len(table):
            return Verdict(outcome, said, found)
        return empty or Verdict("undecided", f"It needs {needs}.")

    return Claim(
        **({"name": "c", "number": 1, "paper": "p", "statement": "It is so.", "refuted_by": "it not being so", "needs": needs} | changed),
        decide=decide,
    )


BROKEN_CLAIMS = {
    "must be a sentence; it is 'So'": claimed(statement="So"),
    "refuted_by must be a phrase": claimed(refuted_by="It is not."),
    "needs must be a phrase": claimed(needs=""),
    "'holds' on empty tables": claimed(empty=Verdict("holds", "It is so.")),
    "does not say what to measure": claimed(empty=Verdict("undecided", "Nothing.")),
    "'fails' on tables on which it holds": claimed(outcome="fails"),
    "without a finding": claimed(findings=()),
    "evidence must be a sentence": claimed(said="so"),
    "is not a claim": draw,
}


@pytest.mark.parametrize(("sentence", "broken"), BROKEN_CLAIMS.items(), ids=BROKEN_CLAIMS)
def test_a_broken_claim_is_told_what_is_broken(sentence, broken):
    with pytest.raises(AssertionError, match=sentence):
        check_claim(broken, holds=TABLES)


def test_the_claim_that_is_not_broken():
    check_claim(claimed(), holds=TABLES)
    check_claim(claimed(outcome="fails"), fails=TABLES)


class Net(torch.nn.Module):
    """A model with three blocks."""

    config = SimpleNamespace(model_type="net")

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))


def kin(**changed):
    """A family that keeps the contract, except for what is changed."""
    kept = {"name": "f", "modality": "text", "about": "nets", "covers": {"Net": RANDOM}, "processor": None, "reader": None}
    kept |= {"matches": lambda config: 2 * (config.model_type == "net"), "stacks": lambda model: {"encoder": Stack(model, "layers.*")}}
    return Family(**(kept | changed))


BROKEN_FAMILIES = {
    "modality must be one of": kin(modality="smell"),
    "must be one line": kin(about=""),
    "verified on": kin(covers={}),
    "without_attention names Other": kin(without_attention=("Other",)),
    "unknown type with 1": kin(matches=lambda config: 1),
    "the model with 0": kin(matches=lambda config: 0),
    "no stacks": kin(stacks=lambda model: {}),
    "a Stack is expected": kin(stacks=lambda model: {"encoder": model}),
    "no part of the model": kin(stacks=lambda model: {"encoder": Stack(Net())}),
    "is not a family": draw,
}


@pytest.mark.parametrize(("sentence", "broken"), BROKEN_FAMILIES.items(), ids=BROKEN_FAMILIES)
def test_a_broken_family_is_told_what_is_broken(sentence, broken):
    with pytest.raises(AssertionError, match=sentence):
        check_family(broken, Net())


def test_the_family_that_is_not_broken():
    check_family(kin(), Net())
    with pytest.raises(IsoscopeError, match="matches 'no_such'"):
        check_family(kin(stacks=lambda model: {"encoder": Stack(model, "no_such")}), Net())


class Lines:
    """A source of two lines of text, except for what is changed."""

    name, modality, fingerprint = "lines", "text", "f"

    def __init__(self, ids="ab", contents=("one", "two"), **changed):
        self.pairs = list(zip(ids, contents, strict=True))
        self.__dict__ |= changed

    def items(self):
        return iter([Item(name, content() if callable(content) else content) for name, content in self.pairs])


class Divided(Lines):
    """Lines of which every part has all of them."""

    def part(self, i, k):
        return self


def opening(*made, **changed):
    """A kind of source that opens `lines`, the first time as the first of `made` and then as the second."""
    sources_made = iter(made * 2)
    kept = {"name": "k", "modality": "text", "accepts": "lines", "open": lambda spec, *_: next(sources_made) if spec == "lines" else None}
    return SourceKind(**(kept | changed))


BROKEN_SOURCES = {
    "modalities must be among": opening(Lines(), modality="smell"),
    "`accepts` is empty": opening(Lines(), accepts=""),
    "opens .*means nothing": opening(open=lambda *_: Lines()),
    "does not open 'lines'": opening(None),
    "has the modality 'speech'": opening(Lines(modality="speech")),
    "the fingerprint": opening(Lines(fingerprint="f"), Lines(fingerprint="g")),
    "no items": opening(Lines("", ())),
    "the same id": opening(Lines("aa")),
    "which is no text": opening(Lines(contents=("one", 2))),
    "differs when it is read again": opening(Lines(contents=("one", lambda: str(rng.random())))),
    "do not have its items, each once": opening(Divided()),
    "is not a kind of source": draw,
}


@pytest.mark.parametrize(("sentence", "broken"), BROKEN_SOURCES.items(), ids=BROKEN_SOURCES)
def test_a_broken_source_is_told_what_is_broken(sentence, broken):
    with pytest.raises(AssertionError, match=sentence):
        check_source(broken, "lines")


def test_the_source_that_is_not_broken():
    check_source(opening(Lines()), "lines")
