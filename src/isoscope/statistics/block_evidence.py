"""What the tables hold for a claim about the untrained block: rows by block, and curves over the norm of the bias by draw."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd

from isoscope.statistics.evidence import Units, by_model
from isoscope.statistics.inference import Estimate, student


def draws(series: pd.DataFrame, name: str, layer: int = 1) -> dict[str, pd.DataFrame]:
    """A curve of untrained blocks by block: one row per draw and one column per norm of the bias. Layer 0 enters the first block."""
    own = series[series["name"].eq(name) & series["layer"].eq(layer)]
    return {
        str(model): own[own["model"].eq(model)].pivot_table(index="seed", columns="x", values="y")
        for model in own["model"].drop_duplicates()
    }


def growth(curve: pd.DataFrame) -> Estimate:
    """How much a curve over draws changes from the smallest bias to the largest, with Student's interval over draws."""
    wide = curve.sort_index(axis=1)
    found = student(wide.iloc[:, -1] - wide.iloc[:, 0])
    return replace(found, note=f"from N = {wide.columns[0]:g} to {wide.columns[-1]:g}, over {len(wide)} draws")


def is_own_block(model: object) -> bool:
    """Whether a block is the published one: BERT's initialisation, a norm behind each part, nothing left out; of any width.

    >>> is_own_block("block bert post-LN"), is_own_block("block bert post-LN, d = 384"), is_own_block("block bert post-LN, mlp only")
    (True, True, False)
    """
    return re.fullmatch(r"block bert post-LN(, d = \d+)?", str(model)) is not None


def is_whole_block(model: object) -> bool:
    """Whether nothing is left out of a block, and it stands alone."""
    left_out = ("only", "no residual", "no norm", "uniform", "blocks")
    return str(model).startswith("block ") and not any(words in str(model) for words in left_out)


def block_rows(table: pd.DataFrame, metric: str) -> Units:
    """The rows of untrained blocks, behind the first block, by block; a value may be missing."""
    return by_model(table[table["metric"].eq(metric) & table["kind"].eq("block") & table["layer"].eq(1)].drop_duplicates("model"))
