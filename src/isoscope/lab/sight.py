"""What is seen of an untrained network at one bias: sums of states, queries, keys and rows of attention, and their curves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.lab.networks import Subject
from isoscope.metrics import metrics
from isoscope.models.attention import Attended
from isoscope.models.attention_rows import AttentionRows, attention_rows, scores_of
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.groups import Groups
from isoscope.statistics.kernel import as_block, block_sums
from isoscope.statistics.moments import Moments

BINS = 60

Curves = dict[tuple[str, int], float]
"""(name, layer): value, for one draw and one bias norm."""
Histograms = dict[int, tuple[np.ndarray, np.ndarray]]
"""layer: the middles of the bins and the density."""


class Sight:
    """What is seen of one draw at one bias norm: sums, from which `curves` come."""

    def __init__(self, depths: tuple[int, ...], query_rows: int) -> None:
        self.depths, self.query_rows = {0, *depths}, query_rows
        self._hidden: dict[int, Cloud] = {}
        self._heads: dict[tuple[str, int, int | None], Cloud] = {}
        self._rows: dict[int, list[AttentionRows]] = {}
        self._medians: dict[int, list[Tensor]] = {}
        self._scores: dict[int, list[Tensor]] = {}
        self._sequences = 0

    def hidden(self, layer: int, x: Tensor) -> None:
        """A state (b, t, d)."""
        if layer in self.depths:
            _add(self._hidden, layer, x, self._sequences)
        if layer == max(self.depths):
            self._sequences += len(x)

    def attended(self, call: Attended) -> None:
        """A call of attention."""
        layer = call.site.layer or 0
        if layer not in self.depths:
            return
        for name, x in (("query", call.plain_query), ("key", call.plain_key)):
            for head in range(x.shape[1]):
                _add(self._heads, (name, layer, head), x[:, head])
            _add(self._heads, (name, layer, None), x.transpose(1, 2).flatten(2))
        self._rows.setdefault(layer, []).append(attention_rows(call))
        t = call.query.shape[2]
        few = torch.linspace(0, t - 1, min(self.query_rows, t)).round().long()
        some = attention_rows(call, rows=few, median=True)
        assert some.median is not None
        self._medians.setdefault(layer, []).append(some.median[some.open > 1])
        scores, is_open = scores_of(call, few)
        self._scores.setdefault(layer, []).append(scores[is_open])

    @property
    def n(self) -> int:
        """Vectors that entered the first block."""
        return self._hidden[0].n

    def curves(self) -> Curves:
        """Every curve's value here."""
        found: Curves = {}
        for layer, statistics in self._hidden.items():
            found |= {(f"block_{name}", layer): x for name, x in _metrics(statistics, HIDDEN).items()}
        for layer in self._rows:
            for name in ("query", "key"):
                each = [
                    _metrics(s, ("mean_cosine", "mean_norm"))
                    for (n, at, head), s in self._heads.items()
                    if (n, at) == (name, layer) and head is not None
                ]
                found[f"block_{name}_cosine", layer] = float(np.mean([one["cosine"] for one in each]))
                found[f"block_{name}_norm", layer] = float(np.mean([one["mean_norm"] for one in each]))
                found[f"block_{name}_cosine_whole", layer] = _metrics(self._heads[name, layer, None], ("mean_cosine",))["cosine"]
            found |= {(name, layer): x for name, x in _of_rows(self._rows[layer], self._medians[layer]).items()}
        return found

    def histograms(self) -> Histograms:
        """Scores before softmax, by layer."""
        made = {}
        for layer, parts in self._scores.items():
            scores = torch.cat(parts)
            low, high = (float(x) for x in scores.aminmax())
            counts = torch.histc(scores, BINS, low, high).double().numpy()
            width = max(high - low, 1e-30) / BINS
            made[layer] = low + width * (np.arange(BINS) + 0.5), counts / (counts.sum() * width)
        return made


HIDDEN = ("mean_cosine", "between_cosine", "mean_norm", "drift_norm")
METRICS = {metric.name: metric for metric in metrics() if metric.name in HIDDEN}


def _add(where: dict[Any, Cloud], key: Any, x: Tensor, first: int | None = None) -> None:
    """Add sequences (b, t, d) to the sums of a place; from the `first` on each is an item, where items are to be told apart."""
    if key not in where:
        where[key] = Cloud(Moments(x.shape[-1], second=False), None if first is None else Groups(x.shape[-1]))
    cloud, sums = where[key], block_sums(as_block(x))
    if sums.nonfinite:
        raise IsoscopeError("The network gives NaN or infinity, and nothing was averaged; choose a smaller --sigma, --depth or --norms.")
    cloud.moments.add(sums, None)
    if cloud.groups is not None and first is not None:
        item = np.arange(first, first + len(x))
        cloud.groups.update(item, [sums], unit=item)


def _metrics(cloud: Cloud, names: tuple[str, ...]) -> dict[str, float]:
    """Metrics of a place; `mean_cosine` is called `cosine` here. Without groups they have no interval: that is over draws."""
    return {
        "cosine" if name == "mean_cosine" else name: float(METRICS[name](cloud if name == "between_cosine" else Cloud(cloud.moments)))
        for name in names
    }


def _of_rows(parts: list[AttentionRows], medians: list[Tensor]) -> dict[str, float]:
    """The curves of attention, from the rows of all sequences. A row with one open position is 1 whatever its score, and is left out."""

    def column(name: str) -> Tensor:
        """(h, rows)."""
        return torch.cat([getattr(part, name).double().transpose(0, 1).flatten(1) for part in parts], 1)

    entropy, high, low, mean, sd, room = (column(name) for name in ("entropy", "maximum", "minimum", "mean", "sd", "open"))
    several = room > 1
    gap = room.log() - entropy

    def over(x: Tensor) -> float:
        return float(x[several].mean())

    offsets = mean.masked_fill(~several, 0.0).sum(1) / several.sum(1)
    whole_high = torch.cat([part.maximum.masked_fill(part.open < 2, 0.0).amax((1, 2)) for part in parts])
    whole_low = torch.cat([part.minimum.masked_fill(part.open < 2, 1.0).amin((1, 2)) for part in parts])
    return {
        "block_score_mean": over(mean),
        "block_score_offset": float(offsets.abs().mean()),
        "block_score_sd": math.sqrt(max(over(sd**2 + mean**2) - over(mean) ** 2, 0.0)),
        "block_score_row_sd": over(sd),
        "block_entropy": over(entropy),
        "block_entropy_gap": over(gap),
        "block_half_row_variance": over(sd**2) / 2,
        "block_row_max": over(high),
        "block_row_median": float(torch.cat(medians).mean()),
        "block_row_min": over(low),
        "block_sequence_max": float(whole_high.mean()),
        "block_sequence_min": float(whole_low.mean()),
    }


def look(subject: Subject, bias: Tensor, depths: tuple[int, ...], query_rows: int) -> Sight:
    """Run the inputs of a draw with this bias and see what there is to see."""
    sight = Sight(depths, query_rows)
    with torch.inference_mode():
        for inputs in subject.inputs():
            subject.run(inputs, bias, max(depths), sight.hidden, sight.attended)
    return sight
