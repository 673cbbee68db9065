"""What the tests of watching share."""

import pytest

from isoscope.watching import numbers_process
from tests.watching.forked import FORKING


@pytest.fixture(scope="module", autouse=True)
def _forked(request):
    """The numbers of looks are computed in a copy of a process that has its imports; only tests of that process start it anew."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.path.match("test_numbers_process.py"):
            patch.setattr(numbers_process, "subprocess", FORKING)
        yield
