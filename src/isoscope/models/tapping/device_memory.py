"""Memory on a device that sums are added to: one piece per device, so that everything comes to the host in one transfer.

Sums are float64 where the device has it. Where it does not (MPS), each is a pair of float32: the sum, and what rounding took from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.core.numerics import Floats

ALIGNMENT = 8
SPLIT_AT = 256
"""From this dimension on, products of a matrix with itself are taken by blocks: five eighths of the work for two more launches."""


def sum_dtype(device: torch.device) -> torch.dtype:
    """The type that sums are kept in on a device."""
    return torch.float32 if device.type == "mps" else torch.float64


@dataclass(frozen=True)
class Field:
    """One array of the memory."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    start: int

    @property
    def bytes(self) -> int:
        """Its size."""
        return math.prod(self.shape) * int(self.dtype.itemsize)


class DeviceMemory:
    """Arrays that are declared first, then allocated together, zero at the start, and read together."""

    def __init__(self, device: torch.device, dtype: torch.dtype | None = None) -> None:
        self.device, self.dtype = device, dtype or sum_dtype(device)
        self._fields: list[Field] = []
        self._size = 0
        self._bytes: Tensor | None = None

    def declare(self, *shape: int, dtype: torch.dtype) -> int:
        """Declare an array, and return its number."""
        field = Field(shape, dtype, self._size)
        self._fields.append(field)
        self._size += -(-field.bytes // ALIGNMENT) * ALIGNMENT
        return len(self._fields) - 1

    def declare_sums(self, *shape: int) -> int:
        """Declare an array of sums, and return its number."""
        return self.declare(1 if self.dtype == torch.float64 else 2, *shape, dtype=self.dtype)

    def clear(self) -> None:
        """Allocate the memory, or set it to zero again."""
        if self._bytes is None:
            with torch.inference_mode(False):  # what is made in inference mode could not be written to outside of it
                self._bytes = torch.zeros(self._size, dtype=torch.uint8, device=self.device)
        else:
            self._bytes.zero_()

    def tensor(self, number: int) -> Tensor:
        """An array, where it lies."""
        assert self._bytes is not None
        field = self._fields[number]
        return self._bytes.narrow(0, field.start, field.bytes).view(field.dtype).view(field.shape)

    def sums(self, number: int) -> DeviceSums:
        """An array of sums, where it lies."""
        return DeviceSums(self.tensor(number))

    def read(self) -> HostMemory:
        """Copy everything to the host, at once."""
        assert self._bytes is not None
        return HostMemory(self._bytes.cpu(), self._fields)


@dataclass(frozen=True)
class HostMemory:
    """The arrays of a device's memory, copied to the host."""

    data: Tensor
    fields: list[Field]

    def array(self, number: int) -> np.ndarray:
        """An array."""
        field = self.fields[number]
        array: np.ndarray = self.data.narrow(0, field.start, field.bytes).view(field.dtype).view(field.shape).numpy()
        return array

    def sums(self, number: int) -> Floats:
        """An array of sums; adding up a pair gives the digits of both."""
        return np.asarray(self.array(number).sum(0, dtype=np.float64))


class DeviceSums:
    """Sums on a device: (1, …) of float64, or (2, …) of float32 where the second part holds what the first has lost."""

    def __init__(self, parts: Tensor) -> None:
        self.parts = parts

    def add(self, at: Any, values: Tensor) -> None:
        """Add values to a part of the sums."""
        high = self.parts[0][at]
        if len(self.parts) == 1:
            high.add_(values)
            return
        low = self.parts[1][at]
        # Knuth's two-sum: whichever is larger, the error of the addition comes out exactly. Then the pair is made one number and its rest.
        total = high + values
        added = total - high
        low.add_((high - (total - added)) + (values - added))
        torch.add(total, low, out=high)
        low.sub_(high - total)

    def index_add(self, at: Any, index: Tensor, values: Tensor) -> None:
        """Add each of the values (c, n, …) to the place along the second axis that its index names."""
        high = self.parts[0][at]
        if len(self.parts) == 1:
            high.index_add_(1, index, values)
        else:
            self.add(at, torch.zeros_like(high).index_add_(1, index, values))


def is_split(h: int, d: int) -> bool:
    """Whether the products of h matrices of d columns are taken by blocks."""
    return h == 1 and d >= SPLIT_AT and d % 4 == 0


def products_size(d: int) -> int:
    """How many numbers `column_products` gives."""
    return d * d * 5 // 8 if is_split(1, d) else d * d


def column_products(y: Tensor) -> Tensor:
    """(h, products_size) yᵀy of the h matrices y (h, n, d), from which `symmetric_matrix` makes a matrix.

    A product of two halves of the columns, one of quarters within each half, and one of each quarter with itself are all that a
    symmetric matrix needs.
    """
    h, _, d = y.shape
    if not products_size(d) < d * d:
        return torch.bmm(y.mT, y).flatten(1)
    if h > 1:
        return torch.cat([column_products(part[None]) for part in y])
    w, q = d // 2, d // 4
    out = y.new_empty(products_size(d))
    sizes = (w * w, 2 * q * q, 4 * q * q)
    halves, quarters, own = (part.view(-1, size, size) for part, size in zip(out.split(sizes), (w, q, q), strict=True))
    torch.bmm(y[:, :, :w].mT, y[:, :, w:], out=halves)
    parts = y[0].unflatten(1, (4, q)).transpose(0, 1)
    torch.bmm(parts[::2].mT, parts[1::2], out=quarters)
    torch.bmm(parts.mT, parts, out=own)
    return out[None]


def symmetric_matrix(products: Floats, d: int) -> Floats:
    """(d, d) the matrix of which `column_products` gave the parts.

    >>> y = torch.arange(3.0 * 256).view(1, 3, 256).double() % 7
    >>> bool((symmetric_matrix(column_products(y)[0].numpy(), 256) == (y[0].T @ y[0]).numpy()).all())
    True
    """
    if products.size == d * d:
        return products.reshape(d, d)
    w, q = d // 2, d // 4
    matrix = np.empty((d, d))
    halves, quarters, own = np.split(products, [w * w, w * w + 2 * q * q])
    matrix[:w, w:] = halves.reshape(w, w)
    for i, part in enumerate(quarters.reshape(2, q, q)):
        matrix[2 * i * q : (2 * i + 1) * q, (2 * i + 1) * q : (2 * i + 2) * q] = part
    for i, part in enumerate(own.reshape(4, q, q)):
        matrix[i * q : (i + 1) * q, i * q : (i + 1) * q] = part
    upper = np.triu(matrix)
    return np.asarray(upper + np.triu(upper, 1).T)
