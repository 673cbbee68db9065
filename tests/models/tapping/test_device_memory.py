"""Sums on a device: where they lie, the digits they keep, and symmetric products of which only a part is taken."""

import numpy as np
import pytest
import torch

from isoscope.models.tapping.device_memory import DeviceMemory, DeviceSums, column_products, products_size, symmetric_matrix

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_arrays_of_odd_sizes_share_one_piece_and_do_not_overlap(dtype):
    memory = DeviceMemory(CPU, dtype)
    flags, sums = memory.declare(3, dtype=torch.uint8), memory.declare_sums(5)
    empty, counts = memory.declare_sums(0, 4), memory.declare(2, dtype=torch.int64)
    memory.clear()
    memory.tensor(flags).fill_(255)
    memory.tensor(counts).fill_(-1)
    for value in (1.0, 2.0**-40):  # float32 alone would lose the second
        memory.sums(sums).add(slice(1, 4), torch.full((3,), value, dtype=dtype))
    host = memory.read()
    assert host.array(flags).tolist() == [255] * 3
    assert host.array(counts).tolist() == [-1, -1]
    assert host.sums(sums).tolist() == [0, *[1 + 2.0**-40] * 3, 0]
    assert host.sums(empty).shape == (0, 4)
    memory.clear()
    assert not memory.read().sums(sums).any()


@pytest.mark.parametrize("parts", [1, 2])
def test_values_are_added_where_their_index_names_them(parts):
    rng = np.random.default_rng(0)
    index, values, expected = np.array([2, 0, 2, 2]), rng.standard_normal((3, 4, 5)), np.zeros((4, 6, 5))
    sums = DeviceSums(torch.zeros((parts, 4, 6, 5), dtype=torch.float64 if parts == 1 else torch.float32))
    for _ in range(3):
        sums.index_add(slice(1, 4), torch.from_numpy(index), torch.from_numpy(values).to(sums.parts.dtype))
        for place, part in zip(index, values.swapaxes(0, 1), strict=True):
            expected[1:, place] += part
    np.testing.assert_allclose(sums.parts.double().sum(0), expected, rtol=0, atol=1e-12 if parts == 1 else 1e-6)


@pytest.mark.parametrize(("h", "d", "share"), [(2, 12, 1), (1, 258, 1), (1, 256, 5 / 8), (2, 260, 5 / 8)])
def test_products_by_blocks_make_the_whole_matrix(h, d, share):
    y = np.random.default_rng(d).standard_normal((h, 7, d))
    products = column_products(torch.from_numpy(y)).numpy()
    assert products.shape == (h, products_size(d)) == (h, share * d * d)
    for part, expected in zip(products, y.swapaxes(1, 2) @ y, strict=True):
        np.testing.assert_allclose(symmetric_matrix(part, d), expected, rtol=0, atol=1e-12)


def test_pairs_of_float32_keep_what_float32_loses():
    """Twenty thousand additions in float32 lose two digits; a pair of float32 keeps twelve in all."""
    values = torch.full((20_000,), 0.1)
    pair, plain = DeviceSums(torch.zeros(2, 1)), torch.zeros(1)
    for value in values:
        pair.add(slice(None), value)
        plain += value
    exact = float(values.double().sum())
    assert abs(float(pair.parts.double().sum()) / exact - 1) < 1e-12
    assert abs(float(plain) / exact - 1) > 1e-5
