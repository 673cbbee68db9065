"""The parts that the study of the isotropic null adds to the instrument."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isoscope.core.progress import Progress
from isoscope.core.study import Study


def write_closed_forms(run: Path, options: Mapping[str, Any], progress: Progress) -> None:
    """Write the closed forms for isotropic vectors as a cell."""
    from isoscope.runs.run import Run
    from isoscope.runs.stored_cell import key_of
    from isoscope.studies.isotropic_null.experiment import DIMENSIONS, isotropic_tables

    identity = {"experiment": "isotropic", "version": 1, "n": 4096, "d": list(DIMENSIONS), "shard": [0, 1]}
    folder = Run(run)
    if folder.cell(key_of(identity)) is None:
        folder.write_cell(identity, {"model": "isotropic"}, {}, *isotropic_tables(DIMENSIONS, 4096))


isotropic_null = Study(
    name="isotropic_null",
    question="What would a cloud with no preferred direction give, with as many points and dimensions?",
    experiment=write_closed_forms,
    command="isoscope isotropic-null",
)
