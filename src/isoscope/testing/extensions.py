"""Contract checks for figures, claims, families and sources."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from isoscope.claims.claim import Claim, Verdict
from isoscope.core.figure import Figure
from isoscope.core.source import Clip, Divisible, SourceKind
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.sources._item_files import ENDINGS

if TYPE_CHECKING:
    from isoscope.models.loading.family import Family

Tables = tuple[pd.DataFrame, pd.DataFrame]
"""The table of numbers and the table of series of a run: `run.table()`, `run.series()`."""
MODALITIES = ("text", "characters", "speech", "images")
UNKNOWN = "isoscope.testing: a name that means nothing"


def require(holds: bool, sentence: str) -> None:
    """Raise `AssertionError` with the sentence unless it holds. A plain `assert` would vanish under `python -O`."""
    if not holds:
        raise AssertionError(sentence)


def check_figure(figure: Figure, tables: Tables | None = None) -> None:
    """Check a figure's contract.

    It has a title, and a caption of whole sentences. From empty tables it draws None. From `tables`, if they are given, it draws a chart
    that JSON can hold, the same when it is drawn again; it changes neither table.
    """
    require(isinstance(figure, Figure), f"{figure!r} is not a figure: declare it with @figure.")
    name = figure.name
    require(bool(figure.title.strip()), f"{name}: the title is empty.")
    require(figure.caption.strip().endswith("."), f"{name}: the caption must end with a full stop; it is {figure.caption!r}.")
    require(figure.draw(*_empty_tables()) is None, f"{name} draws something from empty tables; None is expected.")
    if tables is not None:
        charts = [_without_changing(figure.draw, tables, name) for _ in range(2)]
        require(charts[0] is not None, f"{name} draws nothing from these tables.")
        texts = [_as_json(chart, name) for chart in charts]
        require(texts[0] == texts[1], f"{name} differs when it is drawn again.")


def check_claim(claim: Claim, holds: Tables | None = None, fails: Tables | None = None) -> None:
    """Check a claim's contract.

    It has a statement, which is a sentence; what refutes it and what it needs, which are phrases. Empty tables leave it undecided, without
    findings, and the verdict says what to measure. On `holds` and `fails`, if they are given, it has that outcome, with findings and one
    sentence of evidence, the same when it is decided again; it changes neither table.
    """
    require(isinstance(claim, Claim), f"{claim!r} is not a claim: declare it with @claim.")
    name = claim.name
    require(claim.statement.endswith("."), f"{name}: the statement must be a sentence; it is {claim.statement!r}.")
    for field in ("refuted_by", "needs"):
        phrase = getattr(claim, field)
        require(bool(phrase) and not phrase.endswith("."), f"{name}: {field} must be a phrase without a full stop; it is {phrase!r}.")
    verdict = claim.decide(*_empty_tables())
    undecided = verdict.outcome == "undecided" and not verdict.findings and math.isnan(verdict.effect)
    require(undecided, f"{name} is {verdict.outcome!r} on empty tables; undecided, without findings or effect, is expected.")
    asks = claim.needs in verdict.sentence
    require(asks, f"{name}: on empty tables the verdict does not say what to measure; it is {verdict.sentence!r}.")
    for outcome, tables in (("holds", holds), ("fails", fails)):
        if tables is not None:
            first, second = (_without_changing(claim.decide, tables, name) for _ in range(2))
            require(isinstance(first, Verdict), f"{name} gives a {type(first).__name__}; a Verdict is expected.")
            require(first.outcome == outcome, f"{name} is {first.outcome!r} on tables on which it {outcome}: {first.sentence}")
            require(bool(first.findings), f"{name} {outcome} without a finding.")
            is_sentence = first.sentence[:1].isupper() and first.sentence.endswith(".")
            require(is_sentence, f"{name}: the evidence must be a sentence; it is {first.sentence!r}.")
            # By repr, because NaN, the effect of many verdicts, is not equal to itself.
            require(repr(first) == repr(second), f"{name} differs when it is decided again.")


def check_family(family: Family, model: Any = None) -> None:
    """Check a family's contract.

    It has a known modality, says in one line what it covers, and names what each architecture was verified on. It does not match a
    configuration of an unknown type. A `model` that belongs to it, if it is given, is matched by its configuration, and has stacks that
    are modules of the model, each with blocks.
    """
    from isoscope.models.loading.family import Family, Stack
    from isoscope.models.tapping.blocks import find_blocks

    require(isinstance(family, Family), f"{family!r} is not a family: declare it as a Family.")
    name = family.name
    require(family.modality in MODALITIES, f"{name}: the modality must be one of {', '.join(MODALITIES)}; it is {family.modality!r}.")
    require(bool(family.about.strip()) and "\n" not in family.about, f"{name}: `about` must be one line; it is {family.about!r}.")
    require(bool(family.covers) and all(family.covers.values()), f"{name}: `covers` must say what each architecture was verified on.")
    unknown = set(family.without_attention) - set(family.covers)
    require(not unknown, f"{name}: without_attention names {', '.join(sorted(unknown))}, which `covers` does not.")
    sure = family.matches(SimpleNamespace(model_type=UNKNOWN))
    require(sure == 0, f"{name} matches a configuration of an unknown type with {sure}; 0 is expected.")
    if model is None:
        return
    sure = family.matches(model.config)
    require(sure in (1, 2, 3), f"{name} matches the configuration of the model with {sure}; 1, 2 or 3 is expected.")
    stacks = family.stacks(model)
    require(bool(stacks), f"{name}: the model has no stacks.")
    modules = {id(module) for module in model.modules()}
    for stack_name, stack in stacks.items():
        require(isinstance(stack, Stack), f"{name}: the {stack_name} is a {type(stack).__name__}; a Stack is expected.")
        require(id(stack.module) in modules, f"{name}: the module of the {stack_name} is no part of the model.")
        require(bool(find_blocks(stack.module, stack_name, stack.blocks)), f"{name}: the {stack_name} has no blocks.")


def check_source(kind: SourceKind, spec: str | None = None, column: str | None = None) -> None:
    """Check the contract of a kind of source.

    It has known modalities and says what it accepts; it answers None to a name that it does not know. The source that it opens from `spec`,
    if that is given, has items with ids that differ and content of its modality; reading it again gives the same items, and opening it
    again the same fingerprint. If it can be divided, its parts have the same items with the same ids.
    """
    require(isinstance(kind, SourceKind), f"{kind!r} is not a kind of source: declare it as a SourceKind.")
    name, modalities = kind.name, kind.modality.split(", ")
    require(set(modalities) <= {*ENDINGS, "matrix"}, f"{name}: modalities must be among {', '.join(ENDINGS)}; they are {kind.modality!r}.")
    require(bool(kind.accepts.strip()), f"{name}: `accepts` is empty; it completes the sentence “a source of text is …”.")
    wanted = modalities[0] if modalities[0] in ENDINGS else "text"
    require(kind.open(UNKNOWN, None, wanted) is None, f"{name} opens {UNKNOWN!r}; None is expected.")
    if spec is None:
        return
    source, again = kind.open(spec, column, wanted), kind.open(spec, column, wanted)
    if source is None or again is None:
        raise AssertionError(f"{name} does not open {spec!r}.")
    require(source.modality in modalities, f"{name}: the source has the modality {source.modality!r}; {kind.modality} is expected.")
    require(source.fingerprint == again.fingerprint, f"{name}: the fingerprint of {spec!r} differs when it is opened again.")
    items, reread = list(source.items()), list(source.items())
    ids = [item.id for item in items]
    require(bool(ids), f"{name}: {spec!r} has no items.")
    require(len(set(ids)) == len(ids), f"{name}: two items of {spec!r} have the same id.")
    require(ids == [item.id for item in reread], f"{name}: the items of {spec!r} differ when they are read again.")
    for item, other in zip(items, reread, strict=True):
        fits = _has_modality(item.content, source.modality)
        require(fits, f"{name}: the content of {item.id!r} is a {type(item.content).__name__}, which is no {source.modality}.")
        require(_equal_content(item.content, other.content), f"{name}: the content of {item.id!r} differs when it is read again.")
    if isinstance(source, Divisible):
        for k in (2, 7):
            divided = [item.id for i in range(k) for item in source.part(i, k).items()]
            require(sorted(divided) == sorted(ids), f"{name}: {k} parts of {spec!r} do not have its items, each once.")


def _empty_tables() -> Tables:
    return make_table([], TABLE_COLUMNS), make_table([], SERIES_COLUMNS)


def _without_changing(function: Any, tables: Tables, name: str) -> Any:
    """What a function makes of the tables, which it must not change."""
    copies = [table.copy(deep=True) for table in tables]
    result = function(*tables)
    require(all(copy.equals(table) for copy, table in zip(copies, tables, strict=True)), f"{name} changes a table that it is given.")
    return result


def _as_json(chart: Any, name: str) -> str:
    try:
        return json.dumps(chart.to_dict(), allow_nan=False)
    except ValueError as error:
        raise AssertionError(f"{name} draws a chart with a number that JSON does not have: {error}.") from error


def _has_modality(content: Any, modality: str) -> bool:
    if modality == "speech":
        return isinstance(content, Clip) and content.samples.ndim == 1
    return isinstance(content, str) if modality == "text" else getattr(content, "mode", None) == "RGB"


def _equal_content(one: Any, other: Any) -> bool:
    if isinstance(one, Clip):
        return one.rate == other.rate and np.array_equal(one.samples, other.samples)
    return bool(one == other)
