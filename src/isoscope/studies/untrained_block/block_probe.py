"""Measures an untrained network at one bias: sums over states, queries, keys and rows of attention, and the curves made of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.estimation.cloud import Cloud
from isoscope.metrics import metrics
from isoscope.models.tapping.attention_call import AttentionCall
from isoscope.models.tapping.attention_rows import AttentionRows, attention_rows, query_row_scores
from isoscope.statistics.jackknife_groups import Groups
from isoscope.statistics.kernel import as_block, block_sums
from isoscope.statistics.site_statistics import Moments
from isoscope.studies.untrained_block.networks import Subject

BINS = 60
HIDDEN = ("mean_cosine", "between_cosine", "mean_norm", "drift_norm")
METRICS = {metric.name: metric for metric in metrics() if metric.name in HIDDEN}

Curves = dict[tuple[str, int], float]
"""(name, layer): value, for one draw and one bias norm."""
Histograms = dict[int, tuple[np.ndarray, np.ndarray]]
"""layer: the middles of the bins and the density."""


class BlockProbe:
    """Sums over one draw at one bias norm, from which `curves` come."""

    def __init__(self, depths: tuple[int, ...], query_rows: int) -> None:
        self.depths, self.query_rows = {0, *depths}, query_rows
        self._hidden: dict[int, Cloud] = {}
        self._heads: dict[tuple[str, int, int | None], Cloud] = {}
        self._rows: dict[int, list[AttentionRows]] = {}
        self._medians: dict[int, list[Tensor]] = {}
        self._scores: dict[int, list[Tensor]] = {}
        self._sequences = 0

    def see_hidden(self, layer: int, x: Tensor) -> None:
        """Add a state (b, t, d)."""
        if layer in self.depths:
            _add_vectors(self._hidden, layer, x, self._sequences)
        if layer == max(self.depths):
            self._sequences += len(x)

    def see_attention(self, call: AttentionCall) -> None:
        """Add an attention."""
        layer = call.site.layer or 0
        if layer not in self.depths:
            return
        for name, x in (("query", call.plain_query), ("key", call.plain_key)):
            for head in range(x.shape[1]):
                _add_vectors(self._heads, (name, layer, head), x[:, head])
            _add_vectors(self._heads, (name, layer, None), x.transpose(1, 2).flatten(2))
        self._rows.setdefault(layer, []).append(attention_rows(call))
        t = call.query.shape[2]
        # Medians sort a row and single scores must be held, so both are taken of a few rows, spread evenly over the sequence.
        few = torch.linspace(0, t - 1, min(self.query_rows, t)).round().long()
        few_rows = attention_rows(call, rows=few, median=True)
        assert few_rows.median is not None
        self._medians.setdefault(layer, []).append(few_rows.median[few_rows.open > 1])
        scores, is_open = query_row_scores(call, few)
        self._scores.setdefault(layer, []).append(scores[is_open])

    @property
    def n(self) -> int:
        """The number of vectors that entered the first block."""
        return self._hidden[0].n

    def curves(self) -> Curves:
        """The value of every curve at this bias."""
        curves: Curves = {}
        for layer, cloud in self._hidden.items():
            curves |= {(f"block_{name}", layer): value for name, value in _cloud_metrics(cloud, HIDDEN).items()}
        for layer in self._rows:
            for name in ("query", "key"):
                by_head = [
                    _cloud_metrics(cloud, ("mean_cosine", "mean_norm"))
                    for (kind, at, head), cloud in self._heads.items()
                    if (kind, at) == (name, layer) and head is not None
                ]
                curves[f"block_{name}_cosine", layer] = float(np.mean([values["cosine"] for values in by_head]))
                curves[f"block_{name}_norm", layer] = float(np.mean([values["mean_norm"] for values in by_head]))
                curves[f"block_{name}_cosine_whole", layer] = _cloud_metrics(self._heads[name, layer, None], ("mean_cosine",))["cosine"]
            curves |= {(name, layer): value for name, value in _attention_curves(self._rows[layer], self._medians[layer]).items()}
        return curves

    def histograms(self) -> Histograms:
        """The densities of scores before softmax, by layer."""
        densities = {}
        for layer, parts in self._scores.items():
            scores = torch.cat(parts)
            low, high = (float(x) for x in scores.aminmax())
            counts = torch.histc(scores, BINS, low, high).double().numpy()
            width = max(high - low, 1e-30) / BINS
            densities[layer] = low + width * (np.arange(BINS) + 0.5), counts / (counts.sum() * width)
        return densities


def probe_network(subject: Subject, bias: Tensor, depths: tuple[int, ...], query_rows: int) -> BlockProbe:
    """Run the inputs of a draw with this bias, and return the probe that saw them."""
    probe = BlockProbe(depths, query_rows)
    with torch.inference_mode():
        for inputs in subject.inputs():
            subject.run(inputs, bias, max(depths), probe.see_hidden, probe.see_attention)
    return probe


def _add_vectors(clouds: dict[Any, Cloud], key: Any, x: Tensor, first_item: int | None = None) -> None:
    """Add sequences (b, t, d) to a cloud. If `first_item` is given, each sequence is an item, numbered from it on."""
    if key not in clouds:
        clouds[key] = Cloud(Moments(x.shape[-1], second=False), None if first_item is None else Groups(x.shape[-1]))
    cloud, sums = clouds[key], block_sums(as_block(x))
    if sums.nonfinite:
        raise IsoscopeError("The network gives NaN or infinity, and nothing was averaged; choose a smaller --sigma, --depth or --norms.")
    cloud.moments.add(sums, None)
    if cloud.groups is not None and first_item is not None:
        items = np.arange(first_item, first_item + len(x))
        cloud.groups.update(items, [sums], unit=items)


def _cloud_metrics(cloud: Cloud, names: tuple[str, ...]) -> dict[str, float]:
    """Metrics of a cloud by name; `mean_cosine` is called `cosine` here.

    Only `between_cosine` needs the groups. Without them the others compute no interval: the experiment's intervals are over draws.
    """
    return {
        "cosine" if name == "mean_cosine" else name: float(METRICS[name](cloud if name == "between_cosine" else Cloud(cloud.moments)))
        for name in names
    }


def _attention_curves(parts: list[AttentionRows], medians: list[Tensor]) -> dict[str, float]:
    """The curves of attention over the rows of all sequences.

    `AttentionStatistics` cannot give them: here every row has the same weight whatever it sees, the deviation is averaged and not the
    variance, extremes of a sequence are over all heads, and a row with one open position, whose probability is always 1, does not count.
    """

    def column(name: str) -> Tensor:
        """(h, rows) a number of every row."""
        return torch.cat([getattr(part, name).double().transpose(0, 1).flatten(1) for part in parts], 1)

    entropy, high, low, mean, sd, count = (column(name) for name in ("entropy", "maximum", "minimum", "mean", "sd", "open"))
    counted = count > 1

    def row_mean(x: Tensor) -> float:
        return float(x[counted].mean())

    # By head before the absolute value: heads whose scores are shifted up and down would cancel in a mean over all of them.
    offsets = mean.masked_fill(~counted, 0.0).sum(1) / counted.sum(1)
    sequence_high = torch.cat([part.maximum.masked_fill(part.open < 2, 0.0).amax((1, 2)) for part in parts])
    sequence_low = torch.cat([part.minimum.masked_fill(part.open < 2, 1.0).amin((1, 2)) for part in parts])
    return {
        "block_score_mean": row_mean(mean),
        "block_score_offset": float(offsets.abs().mean()),
        "block_score_sd": math.sqrt(max(row_mean(sd**2 + mean**2) - row_mean(mean) ** 2, 0.0)),
        "block_score_row_sd": row_mean(sd),
        "block_entropy": row_mean(entropy),
        "block_entropy_gap": row_mean(count.log() - entropy),
        "block_half_row_variance": row_mean(sd**2) / 2,
        "block_row_max": row_mean(high),
        "block_row_median": float(torch.cat(medians).mean()),
        "block_row_min": row_mean(low),
        "block_sequence_max": float(sequence_high.mean()),
        "block_sequence_min": float(sequence_low.mean()),
    }
