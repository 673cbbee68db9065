from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pandas as pd
import pytest
from altair.utils import schemapi

from isoscope.figures import figures
from tests.figures.made_shape import made_shape
from tests.figures.made_suite import SUITES, made_suite
from tests.figures.made_table import made_table, made_zoo
from tests.figures.specs import NO_SERIES

Tables = tuple[pd.DataFrame, pd.DataFrame]

# A chart is validated whole when it becomes a specification. Altair would validate each of the hundreds of parts it is made of, too.
schemapi.DEBUG_MODE = False


@pytest.fixture(scope="session")
def tables() -> Tables:
    return made_table()


@pytest.fixture(scope="session")
def zoo() -> pd.DataFrame:
    return made_zoo()


@pytest.fixture(scope="session")
def zoo_spec(zoo) -> Callable[[str], dict]:
    """`zoo_spec(name)`: a figure of the whole zoo, drawn once."""
    return cache(lambda name: figures[name].draw(zoo, NO_SERIES).to_dict())


@pytest.fixture(scope="session")
def shape_tables() -> Tables:
    return made_shape()


@pytest.fixture(scope="session")
def suites() -> Tables:
    return made_suite()


@pytest.fixture(scope="session")
def suite(suites) -> Tables:
    return tuple(frame[frame["model"].eq(SUITES[0])] for frame in suites)


@pytest.fixture(scope="session")
def specs(suite) -> dict[str, dict]:
    """Every figure over the steps of one suite."""
    return {figure.name: figure.draw(*suite).to_dict() for figure in figures if figure.over_steps}
