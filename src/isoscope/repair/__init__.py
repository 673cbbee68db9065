"""Repair a cloud: centring, all-but-the-top, whitening and standardising, as scikit-learn transformers fitted from statistics.

Each is a map x ↦ (x − x̄)A, a `LinearRepair`. Fit it to a matrix, to moments (also those of merged shards) or to a layer of a finished
run. `CentreClusters` has one such map per cluster and is fitted to points or to a sample: moments do not tell clusters apart.
"""

from __future__ import annotations

from isoscope.core.errors import missing_extras_as_user_errors

with missing_extras_as_user_errors("isoscope.repair"):
    import sklearn

from isoscope.repair.base import HasStatistics, Precision, Repair
from isoscope.repair.centre_clusters import CentreClusters
from isoscope.repair.linear import AllButTheTop, Centre, InvertibleRepair, LinearRepair, Standardise, Whiten
from isoscope.repair.repair_errors import RepairError

load = Repair.load
"""`load(path)`: the fitted transformer that `save(path)` wrote, whatever its class."""

__all__ = [
    "AllButTheTop",
    "Centre",
    "CentreClusters",
    "HasStatistics",
    "InvertibleRepair",
    "LinearRepair",
    "Precision",
    "Repair",
    "RepairError",
    "Standardise",
    "Whiten",
    "load",
]

del sklearn
