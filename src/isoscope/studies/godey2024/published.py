"""Curves that others have published, to be drawn next to a model of the same name. No decision depends on them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedCurve:
    """The mean cosine of one model by layer, as its source gives it."""

    models: tuple[str, ...]
    """The names of the model, without an organisation."""
    source: str
    origin: str
    """`code`: the authors' own code or data; `fig`: read off a figure, give or take 0.02."""
    values: tuple[float, ...]
    first: int = 0
    """The layer of the first value."""

    @property
    def label(self) -> str:
        """The source, and how it was read."""
        return f"{self.source} [{self.origin}]"


_ETHAYARAJH, _GODEY = "Ethayarajh 2019", "Godey et al. 2024, small LMs"
_GPT2, _BERT = ("gpt2", "gpt2-small"), ("bert-base", "bert-base-uncased", "bert-base-cased")
CURVES = (
    PublishedCurve(_GPT2, _ETHAYARAJH, "code", (0.611, 0.644, 0.597, 0.614, 0.587, 0.573, 0.578, 0.582, 0.595, 0.617, 0.667, 0.758, 0.978)),
    PublishedCurve(_BERT, _ETHAYARAJH, "code", (0.105, 0.168, 0.219, 0.245, 0.327, 0.377, 0.420, 0.398, 0.399, 0.484, 0.561, 0.675, 0.477)),
    PublishedCurve(_GPT2, _GODEY, "fig", (0.49, 0.62, 0.60, 0.58, 0.53, 0.51, 0.47, 0.45, 0.44, 0.45, 0.48, 0.62, 0.83)),
    PublishedCurve(("opt-125m",), _GODEY, "fig", (0.08, 0.27, 0.30, 0.28, 0.25, 0.22, 0.18, 0.15, 0.13, 0.11, 0.08, 0.06, 0.05)),
    PublishedCurve(("pythia-160m",), _GODEY, "fig", (0.97,), first=12),
    PublishedCurve(("pythia-410m",), _GODEY, "fig", (0.20,), first=24),
)
"""Kawin Ethayarajh, "How Contextual are Contextualized Word Representations?" (EMNLP 2019), and Nathan Godey, Éric de la Clergerie
and Benoît Sagot, "Why do small language models underperform? Studying language model saturation via the softmax bottleneck" (2024).
The latter gives only the last layer of the Pythia models."""


def published_curves(model: str) -> list[PublishedCurve]:
    """The curves of a model of this name; an untrained twin has none.

    >>> [curve.label for curve in published_curves("openai-community/gpt2")]
    ['Ethayarajh 2019 [code]', 'Godey et al. 2024, small LMs [fig]']
    >>> published_curves("untrained:gpt2"), published_curves("gpt2-medium")
    ([], [])
    """
    name = re.split(r"/|--", model.lower())[-1].partition("@")[0]
    return [curve for curve in CURVES if name in curve.models]
