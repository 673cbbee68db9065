"""What the untrained block adds to the instrument."""

from __future__ import annotations

from isoscope.core.block import MEANINGS
from isoscope.core.study import Study
from isoscope.report.block import cosine_gain, fixed_points, trained_norms

untrained_block = Study(
    name="untrained_block",
    question="Is anisotropy already there in a Transformer block at initialisation, when its inputs share a bias?",
    meaning=MEANINGS.get,
    sentences={"Fixed point": fixed_points, "Output and input": cosine_gain, "Norms": trained_norms},
)
