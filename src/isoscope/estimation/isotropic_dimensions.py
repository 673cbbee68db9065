"""What estimators of intrinsic dimension give for isotropic Gaussian points: a fit to simulations, which comes with isoscope."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.core.numerics import Floats

COEFFICIENTS = Path(__file__).with_suffix(".json")
"""Of polynomials (Chebyshev's) in ln n and ln d, for ln mean and for ln(√n·sd/mean); written by `tools/make_isotropic_dimensions.py`."""
POINTS, DIMENSIONS = (256, 4096), (1, 8192)
"""The least and the largest n and d of the simulations."""
ERROR = 0.015
"""How far a mean may lie from that of many draws, as a part of it: 1 % of most estimators, 1.5 % of `razzhigaev`."""


def scaled(n: Any, d: Any) -> tuple[Floats, Floats]:
    """Return ln n and ln d on the scale of the polynomials, from −1 to 1.

    >>> [float(x) for x in scaled(256, 8192)]
    [-1.0, 1.0]
    """
    x, y = (2 * np.log(value / low) / np.log(high / low) - 1 for value, (low, high) in ((n, POINTS), (d, DIMENSIONS)))
    return np.asarray(x), np.asarray(y)


@lru_cache(maxsize=1)
def _coefficients() -> dict[str, dict[str, list[list[float]]]]:
    found: dict[str, dict[str, list[list[float]]]] = json.loads(COEFFICIENTS.read_text("utf-8"))
    return found


def tabulated_level(estimator: str, n: int, d: int) -> tuple[float, float] | None:
    """Return an estimator's mean over isotropic clouds and the sd of one cloud; None where nothing was simulated."""
    if not (POINTS[0] <= n <= POINTS[1] and DIMENSIONS[0] <= d <= DIMENSIONS[1]):
        return None
    x, y = scaled(n, d)
    of = _coefficients()[estimator]
    log_mean, log_sd = (np.polynomial.chebyshev.chebval2d(x, y, np.array(of[quantity])) for quantity in ("mean", "sd"))
    mean = float(np.exp(log_mean))
    return mean, float(np.exp(log_sd)) * mean / n**0.5
