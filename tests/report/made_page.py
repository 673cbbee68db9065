"""A page whose models are called what no page should trust: two models, an untrained twin, and a training."""

from __future__ import annotations

import io

import pandas as pd

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, concat_tables
from tests.figures.made_suite import SUITES, made_suite
from tests.figures.made_table import made_table

SCRIPT = "</script><script>window.owned='script'</script>"
MARKUP = "a \"b\" & 'c' <img src=x onerror=\"window.owned='img'\"> {{7*7}} {% raw %} ${7*7} \u2028"
TRAINING = f"</h2><b>t</b>\u202etfel\nline two, {'a-name-without-an-end-' * 8}"
TITLE = "</title><script>window.owned='title'</script>"
MANIFESTS = [{"file": "</pre><script>window.owned='pre'</script>", "text": "../<b>.txt"}]
SEEDS = {0: (0, 1, 8, 32, 128), 1: (0, 128)}


def made_tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables of all of them."""
    table, series = made_table((SCRIPT, MARKUP))
    shallow = table["layer"].isna() | (table["layer"] <= 6)
    suite = [frame.replace({"model": {SUITES[1]: TRAINING}}) for frame in made_suite(SUITES[1:], SEEDS)]
    few = series["layer"].isin([0, 3, 6])
    return concat_tables([table[shallow], suite[0]], TABLE_COLUMNS), concat_tables([series[few], suite[1]], SERIES_COLUMNS)


def assert_carried(text: str, table: pd.DataFrame, series: pd.DataFrame, name: str) -> None:
    """A CSV of the page is the table: single heads to four digits, all else to the last one; or the points of curves to nine."""
    columns = TABLE_COLUMNS if name == "table" else SERIES_COLUMNS
    found = pd.read_csv(io.StringIO(text, newline="")).astype(columns)
    if name == "table":
        truth = table.sort_values(["model", "metric"], kind="stable").reset_index(drop=True)
        of_heads = truth["head"].notna()
        pd.testing.assert_frame_equal(found[~of_heads], truth[~of_heads], check_exact=True)
        pd.testing.assert_frame_equal(found[of_heads], truth[of_heads], rtol=5e-4, atol=0.0)
    else:
        pd.testing.assert_frame_equal(found, series.reset_index(drop=True), rtol=5e-9, atol=0.0)
