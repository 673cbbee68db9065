"""Simulate what each estimator of intrinsic dimension gives for isotropic points, and fit it over n and d.

    python tools/make_isotropic_dimensions.py            writes src/isoscope/estimation/isotropic_dimensions.json: twenty minutes
    python tools/make_isotropic_dimensions.py --check    compares that file with new draws between the nodes

At each node clouds of n isotropic Gaussian points in d dimensions are drawn, at least twelve. The logarithm of an estimator's mean over
them, and that of the standard deviation in units of the mean over √n, become polynomials in ln n and ln d, by least squares over all nodes:
both are smooth, and a fit averages the noise of many nodes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator

import numpy as np
from numpy.polynomial import chebyshev

from isoscope.estimation.intrinsic_dimension import ESTIMATORS, rows
from isoscope.estimation.isotropic_dimensions import COEFFICIENTS, DIMENSIONS, POINTS, scaled, tabulated_level
from isoscope.estimation.neighbours import neighbours
from isoscope.estimation.resampled_neighbours import MOST, mean_length

PRECISION = 0.006
"""The standard error of a mean, relative to it. One cloud has a spread of about 1.3/√n."""
DEGREES = {"mean": (2, 10), "sd": (1, 4)}
"""Of the polynomials, in ln n and in ln d."""


def nodes() -> Iterator[tuple[int, int]]:
    """Yield n and d: two per octave of each."""
    for n in np.geomspace(*POINTS, 2 * round(np.log2(POINTS[1] / POINTS[0])) + 1).round().astype(int):
        for d in np.unique(np.geomspace(*DIMENSIONS, 2 * round(np.log2(DIMENSIONS[1] / DIMENSIONS[0])) + 1).round().astype(int)):
            yield int(n), int(d)


def draw(n: int, d: int, draws: int, seed: int) -> np.ndarray:
    """Return (draws, estimators) the dimension that each estimator gives for clouds of isotropic points."""
    values = []
    for i in range(draws):
        points = np.random.default_rng([n, d, seed, i]).standard_normal((n, d), dtype=np.float32)
        found, length = neighbours(points, MOST), mean_length(points)
        seen = [rows(found, estimator, np.arange(n), length) for estimator in ESTIMATORS.values()]
        values.append([estimator.fit(part.distances).value for estimator, part in zip(ESTIMATORS.values(), seen, strict=True)])
    return np.array(values)


def draws_at(n: int) -> int:
    """Return how many clouds of n points give the wanted precision."""
    return max(12, round((1.3 / PRECISION) ** 2 / n))


def fit() -> None:
    """Draw at all nodes and write the coefficients."""
    places, means, sds, counts = [], [], [], []
    for n, d in nodes():
        values = draw(n, d, draws_at(n), seed=0)
        places.append((n, d))
        means.append(np.log(values.mean(0)))
        sds.append(np.log(values.std(0, ddof=1) / values.mean(0) * n**0.5))
        counts.append(len(values))
        print(n, d, values.mean(0).round(4), flush=True)
    x, y = scaled(*np.array(places).T)
    found: dict[str, dict[str, list[list[float]]]] = {}
    for quantity, targets in (("mean", means), ("sd", sds)):
        basis = chebyshev.chebvander2d(x, y, DEGREES[quantity])
        # A mean over R clouds of n points is known in proportion to √(R·n), and a standard deviation in proportion to √R.
        weight = np.sqrt(np.array(counts) * (np.array(places)[:, 0] if quantity == "mean" else 1))
        for i, name in enumerate(ESTIMATORS):
            target = np.array(targets)[:, i]
            solution = np.linalg.lstsq(basis * weight[:, None], target * weight)[0]
            off = basis @ solution - target
            rms, worst = float(np.sqrt((off**2).mean())), int(np.abs(off).argmax())
            print(f"{quantity} of {name}: root mean square {rms:.5f}, largest {off[worst]:+.5f} at {places[worst]}")
            shape = tuple(degree + 1 for degree in DEGREES[quantity])
            found.setdefault(name, {})[quantity] = [[float(f"{c:.6g}") for c in row] for row in solution.reshape(shape)]
    COEFFICIENTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def check() -> None:
    """Compare the fit with draws between the nodes."""
    rng, largest = np.random.default_rng(1), dict.fromkeys(ESTIMATORS, 0.0)
    for _ in range(60):
        n, d = (round(float(np.exp(rng.uniform(*np.log(limits))))) for limits in (POINTS, DIMENSIONS))
        values = draw(n, d, 2 * draws_at(n), seed=1)
        for i, name in enumerate(ESTIMATORS):
            level = tabulated_level(name, n, d)
            assert level is not None
            off = level[0] / values[:, i].mean() - 1
            largest[name] = max(largest[name], abs(off))
            print(f"{n:5} {d:5} {name:14} {level[0]:9.3f}, off by {off:+.4f}; sd {level[1] / values[:, i].std(ddof=1):.2f}", flush=True)
    print(largest)


def main() -> int:
    """Fit or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check() if parser.parse_args().check else fit()
    return 0


if __name__ == "__main__":
    sys.exit(main())
