from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from tests.figures.made_table import made_table

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Tables = tuple[pd.DataFrame, pd.DataFrame]


@pytest.fixture(scope="session")
def tables() -> Tables:
    return made_table()


@pytest.fixture(scope="session")
def page_text(tables: Tables) -> str:
    from isoscope.report.page import render_page

    return render_page(*tables, [{"cell": "0123", "note": "<b>&"}], title="Two models & a twin")


@pytest.fixture(scope="session")
def hostile_text() -> str:
    from isoscope.report.page import render_page

    table, series = made_table(("</script><script>alert(1)</script>", "a \"b\" & 'c' <img src=x onerror=alert(2)>\u2028"))
    small = table["metric"].isin(["between_cosine", "drift_ratio"])
    shallow = series["layer"].isin([0, 6, 30])
    return render_page(
        table[small], series[shallow], [{"model": "</pre><script>alert(3)</script>"}], title="</title><script>alert(4)</script>"
    )


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for the tests of one file; that there is none is a failure, which says how to get one."""
    from chromium import ARGUMENTS, HOW, found
    from playwright.sync_api import sync_playwright

    where = found()
    if where is None:
        pytest.fail(HOW, pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=where, args=ARGUMENTS)
        yield browser
        browser.close()
