"""What tests of the lab share."""

import pytest
import torch


@pytest.fixture
def one_thread():
    """Torch computes in one thread, so that sums come in the same order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
