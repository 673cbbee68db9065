"""The public interface for extensions. A plugin imports from here, from `isoscope` and from `isoscope.testing`; other modules are private.

    from isoscope.plugins import Number, metric

    @metric(reads=("sums",), range=(0.0, float("inf")), title="Longest coordinate of the mean")
    def longest_coordinate(cloud):
        ...

| to add | import | file below `ISOSCOPE_PLUGINS` |
|---|---|---|
| a metric, a series, a profile | `metric`, `series`, `profile`, `Number`; see below | `metrics/NAME.py` |
| a figure | `figure`; the columns of its two tables are `TABLE_COLUMNS` and `SERIES_COLUMNS` | `figures/NAME.py` |
| a claim | `Section`, `Verdict`, `Finding`, `UNTESTED` | `claims/NAME.py` |
| a family of models | `Family`, `Stack`, `RANDOM`, `model_types`; the readers and what prepares their inputs | `families/NAME.py` |
| a kind of source | `SourceKind`, `Source`, `Item`, `Clip` | `sources/NAME.py` |

A metric is a function of a `Cloud`, or of an `AttentionCloud`, and reads `PARTS`, or `ATTENTION_PARTS`, of it. It declares the `Question`
that it answers, and whether its interval is about the `POPULATION` or about `THIS_N`. A series returns a `Curve`.

`figures`, `claims`, `families` and `sources` list what is declared; `isoscope.metrics` has the metrics by name. `check_metric`,
`check_figure` and so on, in `isoscope.testing`, hold an extension to the contract of isoscope's own.

Nothing is imported before it is used: importing this module, and adding a metric, a figure, a claim or a source, needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isoscope.claims import claims
    from isoscope.claims.claim import UNTESTED, Claim, Finding, Section, Verdict
    from isoscope.core.errors import IsoscopeError, IsoscopeWarning
    from isoscope.core.figure import Figure, figure
    from isoscope.core.number import POPULATION, THIS_N, Number
    from isoscope.core.source import Clip, Item, Source, SourceKind
    from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS
    from isoscope.estimation.cloud import PARTS, Cloud
    from isoscope.estimation.metric import Curve, Metric, Question, Series, metric, series
    from isoscope.estimation.profile import Profile, profile
    from isoscope.estimation.site_clouds import ATTENTION_PARTS, AttentionCloud
    from isoscope.figures import figures
    from isoscope.models.loading.chunk import Chunk, ModelInput, Positions, Reader
    from isoscope.models.loading.family import RANDOM, Family, Stack, families, model_types
    from isoscope.models.loading.readers.images import ImageReader, load_image_processor
    from isoscope.models.loading.readers.speech import WaveReader, load_feature_extractor
    from isoscope.models.loading.readers.text import CausalReader, PairReader, TextReader
    from isoscope.models.loading.readers.tokenizer import load_tokenizer
    from isoscope.sources import sources

__all__ = [
    "ATTENTION_PARTS",
    "PARTS",
    "POPULATION",
    "RANDOM",
    "SERIES_COLUMNS",
    "TABLE_COLUMNS",
    "THIS_N",
    "UNTESTED",
    "AttentionCloud",
    "CausalReader",
    "Chunk",
    "Claim",
    "Clip",
    "Cloud",
    "Curve",
    "Family",
    "Figure",
    "Finding",
    "ImageReader",
    "IsoscopeError",
    "IsoscopeWarning",
    "Item",
    "Metric",
    "ModelInput",
    "Number",
    "PairReader",
    "Positions",
    "Profile",
    "Question",
    "Reader",
    "Section",
    "Series",
    "Source",
    "SourceKind",
    "Stack",
    "TextReader",
    "Verdict",
    "WaveReader",
    "claims",
    "families",
    "figure",
    "figures",
    "load_feature_extractor",
    "load_image_processor",
    "load_tokenizer",
    "metric",
    "model_types",
    "profile",
    "series",
    "sources",
]

_NAMES = {
    "isoscope.claims.claim": ("UNTESTED", "Claim", "Finding", "Section", "Verdict"),
    "isoscope.core.errors": ("IsoscopeError", "IsoscopeWarning"),
    "isoscope.core.figure": ("Figure", "figure"),
    "isoscope.core.number": ("POPULATION", "THIS_N", "Number"),
    "isoscope.core.source": ("Clip", "Item", "Source", "SourceKind"),
    "isoscope.core.table": ("SERIES_COLUMNS", "TABLE_COLUMNS"),
    "isoscope.figures": ("figures",),
    "isoscope.models.loading.family": ("RANDOM", "Family", "Stack", "families", "model_types"),
    "isoscope.models.loading.chunk": ("Chunk", "ModelInput", "Positions", "Reader"),
    "isoscope.models.loading.readers.images": ("ImageReader", "load_image_processor"),
    "isoscope.models.loading.readers.speech": ("WaveReader", "load_feature_extractor"),
    "isoscope.models.loading.readers.text": ("CausalReader", "PairReader", "TextReader"),
    "isoscope.models.loading.readers.tokenizer": ("load_tokenizer",),
    "isoscope.claims": ("claims",),
    "isoscope.sources": ("sources",),
    "isoscope.estimation.site_clouds": ("ATTENTION_PARTS", "AttentionCloud"),
    "isoscope.estimation.cloud": ("PARTS", "Cloud"),
    "isoscope.estimation.metric": ("Curve", "Metric", "Question", "Series", "metric", "series"),
    "isoscope.estimation.profile": ("Profile", "profile"),
}
"""Where each name is defined."""

_DEFINED_IN = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _DEFINED_IN:
        raise AttributeError(f"module 'isoscope.plugins' has no attribute {name!r}")
    return getattr(importlib.import_module(_DEFINED_IN[name]), name)
