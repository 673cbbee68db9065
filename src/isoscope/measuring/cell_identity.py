"""The identity of a cell: everything that determines its statistics."""

from __future__ import annotations

from typing import Any

from isoscope.core.source import Source
from isoscope.measuring.options import Options
from isoscope.models.naming.model_name import ModelReference


def cell_identity(reference: ModelReference, source: Source, options: Options) -> dict[str, Any]:
    """Everything that determines the cell's statistics, and nothing else."""
    i, k = options.shard
    identity = {"weights": reference.weights, "source": source.fingerprint, "shard": [i, k], **options.identity()}
    if reference.step is None:
        return identity
    # Two steps with equal weights are still two checkpoints, and the table must show that fault: the step belongs to the identity.
    return identity | {"checkpoint": {"suite": reference.name, "step": reference.step, "seed": reference.seed}}
