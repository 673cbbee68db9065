"""Types of arrays that many modules name in their annotations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""An array of float64, whatever its shape."""
