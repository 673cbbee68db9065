"""Signs of collapse: states on few directions, states that point one way, attention on one position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import pandas as pd

from isoscope.core.errors import IsoscopeError
from isoscope.core.user_input import check_word


@dataclass(frozen=True)
class Limits:
    """When to warn that a model collapses."""

    rank: float = 0.25
    """The effective rank of a layer is under this fraction of its highest so far."""
    cosine: float = 0.98
    """The mean cosine of a layer is above this."""
    entropy: float = 0.05
    """The entropy of a layer's attention, averaged over heads, is under this fraction of that of even attention."""

    @classmethod
    def of(cls, given: Mapping[str, float] | None) -> Limits:
        """Limits by name; those that are not named stay as they are."""
        known = [field.name for field in fields(cls)]
        for name, value in (given or {}).items():
            check_word("limits takes", name, known)
            if not 0 <= value <= 1:
                raise IsoscopeError(f"The limit of {name} is a part, between 0 and 1; got {value}.")
        return cls(**(given or {}))


@dataclass(frozen=True)
class Collapse:
    """One sign of collapse: its kind, its layer, and a sentence about it."""

    kind: str
    layer: int
    value: float
    sentence: str


class Alarm:
    """Finds signs of collapse in the rows of every watched step."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._highest: dict[int, tuple[float, int]] = {}
        """The highest effective rank of each layer so far, and its step."""

    def find_collapse(self, step: int, rows: pd.DataFrame) -> list[Collapse]:
        """The signs of collapse at this step."""
        rows = rows[rows["policy"].eq("all") & rows["value"].notna()]
        signs = (self._rank(step, rows), self._cosine(step, rows), self._entropy(step, rows))
        return [sign for sign in signs if sign is not None]

    def _rank(self, step: int, rows: pd.DataFrame) -> Collapse | None:
        ranks = _by_layer(rows, "hidden", "effective_rank")
        # Against earlier looks only, before this one's ranks enter: at the first look there is nothing to fall from.
        shares = {layer: value / self._highest[layer][0] for layer, value in ranks.items() if layer in self._highest}
        for each, value in ranks.items():
            if value > self._highest.get(each, (0.0, 0))[0]:
                self._highest[each] = value, step
        layer = min(shares, key=lambda layer: shares[layer], default=None)
        if layer is None or shares[layer] >= self.limits.rank:
            return None
        highest, then = self._highest[layer]
        sentence = (
            f"Step {step}: the effective rank of layer {layer} is {ranks[layer]:.1f}, and it was {highest:.1f} at step {then}; "
            f"under {self.limits.rank:g} of what it was its states are collapsing onto few directions."
        )
        return Collapse("rank", layer, ranks[layer], sentence)

    def _cosine(self, step: int, rows: pd.DataFrame) -> Collapse | None:
        cosines = _by_layer(rows, "hidden", "mean_cosine")
        layer = max(cosines, key=lambda layer: cosines[layer], default=None)
        if layer is None or cosines[layer] <= self.limits.cosine:
            return None
        sentence = (
            f"Step {step}: the mean cosine of layer {layer} is {cosines[layer]:.4f}; above {self.limits.cosine:g} its states all point "
            "almost the same way."
        )
        return Collapse("cosine", layer, cosines[layer], sentence)

    def _entropy(self, step: int, rows: pd.DataFrame) -> Collapse | None:
        entropies = _by_layer(rows, "attention", "attention_entropy_normalised")
        layer = min(entropies, key=lambda layer: entropies[layer], default=None)
        if layer is None or entropies[layer] >= self.limits.entropy:
            return None
        sentence = (
            f"Step {step}: the entropy of attention in layer {layer}, over its heads, is {entropies[layer]:.3f} of that of even attention; "
            f"under {self.limits.entropy:g} nearly all weight lies on single positions."
        )
        return Collapse("entropy", layer, entropies[layer], sentence)


def _by_layer(rows: pd.DataFrame, kind: str, metric: str) -> dict[int, float]:
    """The values of a metric by layer, averaged over heads."""
    values = rows[rows["kind"].eq(kind) & rows["metric"].eq(metric) & rows["layer"].notna()]
    return {int(layer): float(value) for layer, value in values.groupby("layer")["value"].mean().items()}  # type: ignore[call-overload]
