"""One workshop per file of tests, in which its measurements share runs."""

import pytest

from tests.golden.workshop import Workshop


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """A folder to measure in."""
    return Workshop(tmp_path_factory.mktemp("golden").resolve())
