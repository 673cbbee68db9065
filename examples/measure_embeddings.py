"""Is a matrix of embeddings healthy? Its main numbers, each with its interval and with what chance would give.

    python examples/measure_embeddings.py [embeddings.npy]

Without a file it measures 5000 made points whose mean is a third of their squared length.
"""

import sys

import numpy as np

import isoscope

SHOWN = ["mean_cosine", "drift_ratio", "centred_cosine", "top_share", "effective_rank", "isoscore"]


def drifting_points(n: int = 5000, d: int = 64, drift: float = 1 / 3) -> np.ndarray:
    """Gaussian points around a mean of squared length `drift`, where the points' own is 1."""
    rng = np.random.default_rng(0)
    mean = rng.standard_normal(d)
    mean *= np.sqrt(drift) / np.linalg.norm(mean)
    return (mean + rng.standard_normal((n, d)) * np.sqrt((1 - drift) / d)).astype(np.float32)


def main() -> None:
    found = isoscope.geometry(sys.argv[1] if len(sys.argv) > 1 else drifting_points(), metric=SHOWN)
    for name, number in found.items():
        verdict = "as chance" if number.low <= number.null <= number.high else "above chance" if number.above_null else "below chance"
        print(f"{name:16} {number:8.4f}  [{number.low:.4f}, {number.high:.4f}]  null {number.null:8.4f}  {verdict}")


if __name__ == "__main__":
    main()
