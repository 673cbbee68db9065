"""Repair a cloud: centring, all-but-the-top, whitening, standardising, as scikit-learn transformers fitted from statistics.

Each is the map x ↦ (x − x̄)A, a `LinearRepair`. Fit it to a matrix, to moments (those of merged shards too) or to a layer of a finished
run. `CentreClusters` has such a map a cluster, and is fitted to points or to a sample; moments do not know of clusters.
"""

from __future__ import annotations

from isoscope.core.extras import missing_extras_as_user_errors
from isoscope.repair.errors import RepairError

with missing_extras_as_user_errors("isoscope.repair"):
    import sklearn

from isoscope.repair.all_but_the_top import AllButTheTop
from isoscope.repair.centre import Centre
from isoscope.repair.centre_clusters import CentreClusters
from isoscope.repair.directions import Precision
from isoscope.repair.layer import HasStatistics
from isoscope.repair.linear_repair import InvertibleRepair, LinearRepair
from isoscope.repair.standardise import Standardise
from isoscope.repair.transformer import Repair
from isoscope.repair.whiten import Whiten

load = Repair.load
"""`load(path)`: the fitted transformer that `save(path)` wrote, whichever of them it is."""

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
