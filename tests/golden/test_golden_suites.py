"""The measurements of the group "suites" give what is stored."""

import pytest

from tests.golden.checking import check_stored, list_names


@pytest.mark.slow
@pytest.mark.parametrize("name", list_names("suites"))
def test_measurement_gives_what_is_stored(name, workshop):
    check_stored(name, workshop)
