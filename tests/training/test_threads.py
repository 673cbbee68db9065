"""The limit on threads holds within its context only."""

import pytest
import torch
from threadpoolctl import threadpool_info

from isoscope.core.errors import IsoscopeError
from isoscope.training.threads import limit_threads


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_torch_and_numpy_are_limited_and_restored():
    before = torch.get_num_threads(), blas_threads()
    with limit_threads(1):
        assert torch.get_num_threads() == 1
        assert set(blas_threads()) == {1}
    assert (torch.get_num_threads(), blas_threads()) == before


def test_an_error_restores_them_too():
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), limit_threads(1):
        raise ZeroDivisionError
    assert torch.get_num_threads() == before


def test_without_a_number_nothing_changes():
    before = torch.get_num_threads(), blas_threads()
    with limit_threads(None):
        assert (torch.get_num_threads(), blas_threads()) == before


@pytest.mark.parametrize("count", [0, 10**9])
def test_impossible_numbers_are_refused(count):
    with pytest.raises(IsoscopeError, match="--threads must be at"), limit_threads(count):
        raise AssertionError
