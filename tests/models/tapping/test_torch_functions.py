"""Every function is known by a name that torch has, and its role is what it does to features."""

import pytest
import torch
from torch import Tensor, nn

from isoscope.models.tapping import channels
from isoscope.models.tapping.torch_functions import NAMES, ROLES, Role, TorchCall, float_tensors, role_of, scalar_value


def test_every_name_is_a_function_or_attribute_of_torch():
    """A misspelt name would silently count as a function that mixes features."""
    places = (torch, Tensor, nn.functional, torch.special, torch._C._nn)
    names = {
        *ROLES,
        *channels.KEEP,
        *channels.RESHAPES,
        *channels.REDUCTIONS,
        *channels.READ_LAST,
        *channels.READ_MAPS,
        *channels.READ_SECOND,
    }
    assert [name for name in sorted(names) if not any(hasattr(place, name.removeprefix("special_")) for place in places)] == []


def test_no_function_has_two_roles():
    names = [name for of_role in NAMES.values() for name in of_role.split()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("function", "role"),
    [
        (torch.Tensor.matmul, Role.PRODUCT),
        (nn.functional.scaled_dot_product_attention, Role.ATTENTION),
        (torch.Tensor.mT.__get__, Role.SHAPE),
        (torch.Tensor.shape.__get__, Role.SKIP),  # an attribute that is no tensor
        (torch.Tensor.__getitem__, Role.SHAPE),
        (torch.Tensor.__rsub__, Role.MINUS),
        (nn.functional.linear, Role.OTHER),
        (torch.sin, Role.OTHER),
    ],
)
def test_roles(function, role):
    assert role_of(function)[0] is role


@pytest.mark.parametrize(
    ("name", "writes"), [("mul_", True), ("mul", False), ("__setitem__", True), ("__mul__", False), ("masked_fill_", True)]
)
def test_functions_that_write_into_their_first_argument(name, writes):
    assert TorchCall(ROLES[name], name, None, (), {}).writes is writes


def test_float_tensors_are_found_in_nested_lists_in_order():
    x, y, z = torch.zeros(1), torch.zeros(1, dtype=torch.complex64), torch.zeros(1, dtype=torch.bfloat16)
    values = (x, torch.zeros(1, dtype=torch.int64), [y, (z, "text")], None)
    assert [id(tensor) for tensor in float_tensors(values)] == [id(x), id(y), id(z)]


def test_scalars_are_numbers_and_tensors_of_one_element():
    assert scalar_value(torch.tensor([[0.5]])) == 0.5
    assert scalar_value(torch.tensor([1.0, 2.0])) is None
    assert scalar_value(torch.tensor(1j)) is None
    assert scalar_value(None) is None
