"""Both tables of four models of different roles, for figures over depth and neighbourhoods."""

from __future__ import annotations

import numpy as np
import pandas as pd

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table

MODELS = {"org/decoder": ("decoder", 12), "org/other-decoder": ("decoder", 6), "org/encoder": ("encoder", 6), "org/net": ("backbone", 4)}
NUMBERS = ("top_share", "top_share_linear", "two_nn", "two_nn_batches", "local_share", "local_share_excess")


def made_shape() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables of four models, with profiles of whole stacks among the rows, which no figure may trip over."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, object]] = []
    points: list[dict[str, object]] = []
    for model, (stack, layers) in MODELS.items():
        for policy in ("all", "body"):
            who = {"model": model, "revision": "main", "modality": "text", "family": stack, "stack": stack, "policy": policy}
            for kind, layer in [*(("hidden", layer) for layer in range(layers + 1)), ("final", layers + 1)]:
                at = who | {"kind": kind, "layer": layer}
                for metric in NUMBERS:
                    value = float(rng.uniform(0.1, 0.9))
                    rows.append(
                        at | {"metric": metric, "value": value, "low": value - 0.1, "high": value + 0.1, "null": value / 2, "n": 9, "d": 8}
                    )
                for name, across in (("gride_scales", (1, 2, 4, 8)), ("two_nn_sizes", (64, 128, 256))):
                    points += [at | {"name": name, "x": x, "y": float(rng.uniform(5, 9)), "weight": 0.5} for x in across]
            rows += [who | {"kind": "hidden", "metric": "bell", "value": 0.2, "low": 0.1, "high": 0.3, "n": 9, "d": 8}]
    return make_table(rows, TABLE_COLUMNS), make_table(points, SERIES_COLUMNS)
