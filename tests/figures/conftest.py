from __future__ import annotations

import pandas as pd
import pytest

from tests.figures.made_table import made_table


@pytest.fixture(scope="session")
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    return made_table()
