"""Wrong parameters: which they are, and how they are worded."""

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.repair.repair_errors import is_int, parameter_error


def test_the_error_is_one_of_the_user_and_one_that_scikit_learn_expects():
    error = parameter_error("k", "an int of at least 0", -1)
    assert str(error) == "The 'k' parameter must be an int of at least 0. Got -1 instead."
    assert isinstance(error, IsoscopeError)
    assert isinstance(error, ValueError)


@pytest.mark.parametrize(
    ("value", "accepted"), [(1, True), (np.int32(5), True), (0, False), (6, False), (True, False), (2.0, False), ("2", False)]
)
def test_integers_of_numpy_count_and_truth_values_do_not(value, accepted):
    assert is_int(value, 1, 5) is accepted
