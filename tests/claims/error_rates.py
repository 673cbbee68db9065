"""How often verdicts speak where they should not: simulations under a null that was built for each.

Run `python -m tests.claims.error_rates` to print every rate. `make test-all` asserts them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isoscope.core.numerics import LEVEL

Draw = Callable[[np.random.Generator], bool]
"""One simulated run: whether the verdict speaks, which under the null is an error."""


@dataclass(frozen=True)
class Null:
    """A verdict, and a world in which it should say nothing."""

    verdict: str
    world: str
    draw: Draw
    draws: int = 1000
    limit: float = LEVEL

    def rate(self, draws: int | None = None, seed: int = 0) -> float:
        """The part of simulated runs in which the verdict speaks."""
        rng = np.random.default_rng(seed)
        count = draws or self.draws
        return sum(bool(self.draw(rng)) for _ in range(count)) / count

    def allowed(self, draws: int | None = None) -> float:
        """The limit, and three standard deviations of a rate over so many draws: a verdict at its limit passes in 99.9 %."""
        return self.limit + 3 * math.sqrt(self.limit * (1 - self.limit) / (draws or self.draws))


def main() -> None:
    """Print a table in Markdown."""
    from tests.claims.nulls import NULLS

    print("| verdict | where it should say nothing | runs | speaks |\n|---|---|---|---|")
    for null in NULLS:
        if len(sys.argv) < 2 or any(word in null.verdict for word in sys.argv[1:]):
            print(f"| {null.verdict} | {null.world} | {null.draws:,} | {100 * null.rate():.1f} % |", flush=True)


if __name__ == "__main__":
    main()
