"""The parts that the study of training dynamics adds to the instrument."""

from __future__ import annotations

from pathlib import Path

from isoscope.core.study import Study
from isoscope.studies.training_dynamics.sentences import derived_meaning, rows_on_page, training_sections


def derive_dynamics(run: Path) -> None:
    """Add the dynamics of every training in a run that was measured at two steps or more."""
    from isoscope.runs.run import Run
    from isoscope.studies.training_dynamics.analysis import dynamics, suites

    if suites(Run.existing(run)):
        dynamics(run)


training_dynamics = Study(
    name="training_dynamics",
    question="What changes over the checkpoints of a training, by how much, and what comes first?",
    meaning=derived_meaning,
    sections=training_sections,
    select_rows=rows_on_page,
    derive=derive_dynamics,
)
