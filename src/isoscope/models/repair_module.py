"""A fitted repair as a module of torch: to put after an encoder, to differentiate through, to export.

`isoscope.repair` needs no torch; only its `to_torch` comes here, with arrays (docs/decisions/0020).
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from isoscope.core.errors import IsoscopeError
from isoscope.core.numerics import Floats


class RepairModule(nn.Module):  # type: ignore[misc]
    """x ↦ f(x − x̄) on tensors (…, d). All it holds are buffers: there is nothing to train.

    It computes in the type of its buffers and returns the type of its input.
    """

    def __init__(self, repair: str, mean: Floats, *, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.repair = repair
        self.d = len(mean)
        self.eval()  # it is the same in training, and exporters warn of modules that may not be
        self._dtype = torch.float32 if dtype is None else dtype
        if not isinstance(self._dtype, torch.dtype) or not self._dtype.is_floating_point:
            raise IsoscopeError(f"The 'dtype' parameter must be a floating-point type of torch. Got {dtype!r} instead.")
        # In float32 a mean of a thousand is off by 3·10⁻⁵. What rounding took from it is subtracted too, so that no digit of x − x̄ is lost.
        self._hold("mean", mean)
        self._hold("mean_rest", mean - self.mean.to(torch.float64).numpy())

    mean: Tensor  # (d,)
    mean_rest: Tensor  # (d,)

    def _hold(self, name: str, array: np.ndarray | None) -> None:
        """Register an array of floats as a buffer of the module's type; None stays None."""
        self.register_buffer(name, None if array is None else torch.tensor(array, dtype=self._dtype, device="cpu"))

    @abstractmethod
    def map_centred(self, z: Tensor) -> Tensor:
        """Map centred points, (…, d) to (…, d′)."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, d) to (…, d′)."""
        if x.shape[-1] != self.d:
            raise IsoscopeError(f"x has {x.shape[-1]} features, but {self.repair} is expecting {self.d} features as input.")
        if not x.is_floating_point():
            raise IsoscopeError(f"x must be a tensor of floats; it holds {x.dtype}. Pass x.float().")
        with _exact(x.device.type):
            z = x.to(self.mean.dtype) - self.mean - self.mean_rest
            return self.map_centred(z).to(x.dtype)

    def extra_repr(self) -> str:
        """The repair it came from."""
        return self.repair


def _exact(device: str) -> AbstractContextManager[object]:
    """Without autocast, which would compute products in bfloat16 and leave two digits of them."""
    mixed = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if mixed else nullcontext()


class LinearModule(RepairModule):
    """z ↦ z·diagonal + z·downᵀ·upᵀ; a part that is None is left out."""

    diagonal: Tensor | None  # (d,)
    down: Tensor | None  # (k, d)
    up: Tensor | None  # (d, k)

    def __init__(
        self,
        repair: str,
        mean: Floats,
        diagonal: Floats | None,
        down: Floats | None,
        up: Floats | None,
        *,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(repair, mean, dtype=dtype)
        self._hold("diagonal", diagonal)
        # Transposed, as `nn.Linear` holds its weight.
        self._hold("down", None if down is None else down.T)
        self._hold("up", None if up is None else up.T)

    def map_centred(self, z: Tensor) -> Tensor:
        """Map centred points, (…, d) to (…, d′)."""
        if self.down is None:
            assert self.diagonal is not None
            return z * self.diagonal
        product = linear(z, self.down) if self.up is None else linear(linear(z, self.down), self.up)
        return product if self.diagonal is None else z * self.diagonal + product


class ClusterModule(RepairModule):
    """z ↦ (z − z̄_c)(I − V_cᵀV_c), where c is the cluster whose centre is nearest."""

    centres: Tensor  # (clusters, d)
    half_lengths: Tensor  # (clusters,) ‖c‖²/2, negative
    means: Tensor  # (clusters, d)
    components: Tensor | None  # (clusters · directions, d)
    owner: Tensor | None  # (clusters · directions,) the cluster of each

    def __init__(
        self, repair: str, mean: Floats, centres: Floats, means: Floats, components: Floats, *, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__(repair, mean, dtype=dtype)
        clusters, directions, d = components.shape
        self._hold("centres", centres)
        self._hold("half_lengths", -0.5 * (centres**2).sum(1))
        self._hold("means", means)
        self._hold("components", components.reshape(-1, d) if directions else None)
        self.register_buffer("owner", torch.arange(clusters, device="cpu").repeat_interleave(directions) if directions else None)

    def map_centred(self, z: Tensor) -> Tensor:
        """Map centred points, (…, d) to (…, d)."""
        # The nearest centre has the largest z·c − ‖c‖²/2: ‖z‖², which is common to all, would only cost digits.
        cluster = linear(z, self.centres, self.half_lengths).argmax(-1)
        z = z - self.means[cluster]
        if self.components is None:
            return z
        # Along the directions of all clusters, and then only of the own: a gather of them would take directions · d numbers per point.
        along = linear(z, self.components)
        return z - torch.where(cluster.unsqueeze(-1) == self.owner, along, 0.0) @ self.components
