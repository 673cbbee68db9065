"""A linear map in the form that is cheap to apply, and the same map as a matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoscope.core.numerics import Floats


@dataclass(frozen=True)
class LinearMap:
    """z ↦ z·diagonal + z·down·up. A part that is None is left out; without `up` the second term is z·down.

    Two thin products cost n·d·k, where the (d, d) matrix of the same map would cost n·d².

    >>> LinearMap(np.array([1.0, 3.0]))(np.array([[2.0, 2.0]])).tolist()
    [[2.0, 6.0]]
    """

    diagonal: Floats | None = None  # (d,)
    down: Floats | None = None  # (d, k)
    up: Floats | None = None  # (k, d)

    def __call__(self, z: Floats) -> Floats:
        """Map (m, d) to (m, d′)."""
        if self.down is None:
            assert self.diagonal is not None
            return z * self.diagonal
        product = z @ self.down if self.up is None else z @ self.down @ self.up
        return product if self.diagonal is None else z * self.diagonal + product

    def matrix(self) -> Floats:
        """(d, d′) the matrix A of z ↦ zA."""
        first = self.down if self.diagonal is None else self.diagonal
        assert first is not None
        return self(np.eye(len(first)))
