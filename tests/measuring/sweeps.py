"""Small sweeps whose tables are held against each other."""

import numpy as np

FEW = {"seq_len": 32, "sample": 0, "layers": "1", "threads": 1, "quiet": True}
ORDER = ["model", "seed", "step", "stack", "kind", "layer", "head", "policy", "metric"]


def same(one, two, tolerance=1e-9):
    """Two tables with the same rows in any order, equal to 1e-9."""
    one, two = (frame.sort_values(ORDER).reset_index(drop=True) for frame in (one, two))
    assert one[[*ORDER, "n", "d"]].equals(two[[*ORDER, "n", "d"]])
    for column in ("value", "low", "high", "null"):
        np.testing.assert_allclose(one[column], two[column], rtol=tolerance, atol=tolerance)
