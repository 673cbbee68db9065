"""Collapse, in words: states on few directions, states that point one way, attention on one position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import pandas as pd

from isoscope.core.errors import IsoscopeError, nearest


@dataclass(frozen=True)
class Limits:
    """When it is said that a model collapses."""

    rank: float = 0.25
    """The effective rank of a layer is under this part of the highest that it was."""
    cosine: float = 0.98
    """The mean cosine of a layer is above this."""
    entropy: float = 0.05
    """The entropy of a layer's attention, the mean over its heads, is under this part of that of even attention."""

    @classmethod
    def of(cls, given: Mapping[str, float] | None) -> Limits:
        """Limits by name; those that are not named stay as they are."""
        known = [field.name for field in fields(cls)]
        for name, value in (given or {}).items():
            if name not in known:
                raise IsoscopeError(f"limits takes {', '.join(known)}; got {name!r}{nearest(name, known) or '.'}")
            if not 0 <= value <= 1:
                raise IsoscopeError(f"The limit of {name} is a part, between 0 and 1; got {value}.")
        return cls(**(given or {}))


@dataclass(frozen=True)
class Collapse:
    """One sign of collapse: which, where, and a sentence about it."""

    kind: str
    layer: int
    value: float
    words: str


class Alarm:
    """Sees the rows of every watched step, and says which signs of collapse they show."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._highest: dict[int, tuple[float, int]] = {}

    def see(self, step: int, rows: pd.DataFrame) -> list[Collapse]:
        """The signs of collapse at this step."""
        rows = rows[rows["policy"].eq("all") & rows["value"].notna()]
        return [one for one in (self._rank(step, rows), self._cosine(step, rows), self._entropy(step, rows)) if one is not None]

    def _rank(self, step: int, rows: pd.DataFrame) -> Collapse | None:
        now = _by_layer(rows, "hidden", "effective_rank")
        shares = {layer: value / self._highest[layer][0] for layer, value in now.items() if layer in self._highest}
        for layer, value in now.items():
            if value > self._highest.get(layer, (0.0, 0))[0]:
                self._highest[layer] = value, step
        worst = min(shares, key=lambda layer: shares[layer], default=None)
        if worst is None or shares[worst] >= self.limits.rank:
            return None
        most, then = self._highest[worst]
        words = (
            f"Step {step}: the effective rank of layer {worst} is {now[worst]:.1f}, and it was {most:.1f} at step {then}; "
            f"under {self.limits.rank:g} of what it was its states are collapsing onto few directions."
        )
        return Collapse("rank", worst, now[worst], words)

    def _cosine(self, step: int, rows: pd.DataFrame) -> Collapse | None:
        now = _by_layer(rows, "hidden", "mean_cosine")
        worst = max(now, key=lambda layer: now[layer], default=None)
        if worst is None or now[worst] <= self.limits.cosine:
            return None
        words = (
            f"Step {step}: the mean cosine of layer {worst} is {now[worst]:.4f}; above {self.limits.cosine:g} its states all point almost "
            "the same way."
        )
        return Collapse("cosine", worst, now[worst], words)

    def _entropy(self, step: int, rows: pd.DataFrame) -> Collapse | None:
        now = _by_layer(rows, "attention", "attention_entropy_normalised")
        worst = min(now, key=lambda layer: now[layer], default=None)
        if worst is None or now[worst] >= self.limits.entropy:
            return None
        words = (
            f"Step {step}: the entropy of attention in layer {worst}, over its heads, is {now[worst]:.3f} of that of even attention; under "
            f"{self.limits.entropy:g} nearly all weight lies on single positions."
        )
        return Collapse("entropy", worst, now[worst], words)


def _by_layer(rows: pd.DataFrame, kind: str, metric: str) -> dict[int, float]:
    """The values of a metric by layer; of heads their mean."""
    own = rows[rows["kind"].eq(kind) & rows["metric"].eq(metric) & rows["layer"].notna()]
    return {int(layer): float(value) for layer, value in own.groupby("layer")["value"].mean().items()}  # type: ignore[call-overload]
