from __future__ import annotations

import pandas as pd
import pytest

from tests.figures.made_table import made_table

Tables = tuple[pd.DataFrame, pd.DataFrame]


@pytest.fixture(scope="session")
def tables() -> Tables:
    return made_table()


@pytest.fixture(scope="session")
def page_text(tables: Tables) -> str:
    from isoscope.report.page import page

    return page(*tables, [{"cell": "0123", "note": "<b>&"}], title="Two models & a twin")


@pytest.fixture(scope="session")
def hostile_text() -> str:
    from isoscope.report.page import page

    table, series = made_table(("</script><script>alert(1)</script>", "a \"b\" & 'c' <img src=x onerror=alert(2)>\u2028"))
    small = table["metric"].isin(["between_cosine", "drift_ratio"])
    shallow = series["layer"].isin([0, 6, 30])
    return page(table[small], series[shallow], [{"model": "</pre><script>alert(3)</script>"}], title="</title><script>alert(4)</script>")
