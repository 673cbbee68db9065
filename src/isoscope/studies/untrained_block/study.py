"""The parts that the study of the untrained block adds to the instrument."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isoscope.core.progress import Progress
from isoscope.core.study import Study
from isoscope.studies.untrained_block.curves import MEANINGS
from isoscope.studies.untrained_block.sentences import cosine_gain, fixed_points, trained_norms


def run_paper_setting(run: Path, options: Mapping[str, Any], progress: Progress) -> None:
    """Run the experiment in the setting of paper 1, for as many draws as the options say."""
    from isoscope.runs.run import Run
    from isoscope.studies.untrained_block.experiment import Network, Trial, run_experiment
    from isoscope.training.threads import limit_threads

    trial = Trial(draws=int(options.get("draws", 5)))
    total = trial.draws * len(trial.norms)
    with limit_threads(options.get("threads")), progress.bar("block", total, "measurements") as bar:
        run_experiment(Run(run), Network(), trial, bar.advance)


untrained_block = Study(
    name="untrained_block",
    question="Is anisotropy already there in a Transformer block at initialisation, when its inputs share a bias?",
    meaning=MEANINGS.get,
    sentences={"Fixed point": fixed_points, "Output and input": cosine_gain, "Norms": trained_norms},
    experiment=run_paper_setting,
    command="isoscope untrained-block",
)
