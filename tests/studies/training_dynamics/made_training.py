"""A training of which hidden states were measured, and whose documents drift step by step."""

from pathlib import Path

import numpy as np

from tests.measuring.made_runs import corpus, moved, write

DRIFT = {0: 0.2, 10: 0.5, 100: 1.5}
"""By step, how far the points of a layer are moved from those of the layer before."""


def write_training(path: Path, steps: tuple[int, ...] = (0, 10, 100)) -> Path:
    """A run with one cell per step, of three layers."""
    x, mask = corpus(np.random.default_rng(0), 40)
    for step in steps:
        write(path, [moved(x, DRIFT[step] * layer) for layer in range(3)], mask, step=step)
    return path
