"""A finished cell that another version of isoscope wrote."""

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.statistics.site_statistics import VERSION
from tests.measuring.made_runs import corpus, write


def test_statistics_of_another_version_are_not_read(tmp_path):
    x, mask = corpus(np.random.default_rng(0), 12)
    cell = next(iter(write(tmp_path / "run", [x], mask).run.cells()))
    assert cell.statistics()
    cell.manifest["identity"]["statistics"] = VERSION - 1
    with pytest.raises(
        IsoscopeError, match=f"holds statistics of version {VERSION - 1}, and this isoscope reads version {VERSION}; measure"
    ):
        cell.statistics()
