"""Are embeddings healthy, and which repair to try: a verdict in words on a matrix. Nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from isoscope.core.text_table import align_table, html_table
from isoscope.core.wording import format_list
from isoscope.estimation.embedding_checks import FAULT, FINE, UNCLEAR, Check, check_cloud
from isoscope.runs.matrix_geometry import Geometry, read_matrix
from isoscope.runs.rows import numbers

HEAD = ["check", "result", "measured", "limit"]
RESULTS = {FINE: "fine", UNCLEAR: "unclear", FAULT: "FAULT"}


@dataclass(frozen=True)
class Diagnosis:
    """The verdict on a matrix: `checks`, each with its limit, and all `numbers`."""

    checks: list[Check]
    numbers: Geometry

    @property
    def healthy(self) -> bool:
        """Whether no check found a fault; those that are unclear do not count."""
        return not self.faults

    @property
    def faults(self) -> list[str]:
        """The names of the checks that found a fault."""
        return [check.name for check in self.checks if check.outcome == FAULT]

    @property
    def unclear(self) -> list[str]:
        """The names of the checks whose limit lies within the interval."""
        return [check.name for check in self.checks if check.outcome == UNCLEAR]

    @property
    def repairs(self) -> list[str]:
        """The repairs to try, as expressions of `isoscope.repair`, each once."""
        return list(dict.fromkeys(check.repair for check in self.checks if check.outcome == FAULT and check.repair))

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        unclear = f" Unclear: {format_list(self.unclear)}." if self.unclear else ""
        if self.faults:
            return f"Not healthy: {format_list(self.faults)}.{unclear}"
        if unclear:
            return f"No fault is certain.{unclear}"
        return f"Healthy: none of {len(self.checks)} checks found a fault."

    @property
    def sentences(self) -> list[str]:
        """One sentence per check that is not fine."""
        return [check.sentence for check in self.checks if check.outcome != FINE]

    def rows(self) -> list[list[str]]:
        """The cells of a table of all checks."""
        return [[check.name, RESULTS[check.outcome], check.measured, check.limit] for check in self.checks]

    def __repr__(self) -> str:
        return "\n".join([self.headline, *self.sentences, "", align_table(HEAD, self.rows(), left=2)])

    def _repr_html_(self) -> str:
        words = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.sentences)
        return f"<p><b>{escape(self.headline)}</b></p>{words}{html_table(HEAD, self.rows(), left=2)}"


def diagnose(
    matrix: Any, *, allow_wide: bool = False, sample: int = 4096, seed: int = 0, key: str | None = None, quiet: bool = True
) -> Diagnosis:
    """Whether the embeddings in a matrix (n, d) are healthy, what is wrong with them, and which repair to try.

    A check finds a fault only if the whole 95 % interval of its quantity lies beyond its limit; it is `unclear` if the limit lies within.
    Zero rows and duplicates are counted over all rows. docs/how-to/check-and-repair-embeddings.md says why each limit is what it is.

    Args:
        matrix: an array, a torch tensor, or the path of a file (.npy, .npz, .safetensors, .parquet, .csv, .tsv, .pt), read in blocks.
        allow_wide: take a matrix with more columns than rows.
        sample: how many points the checks that need single points may hold.
        seed: chooses the sample.
        key: which array of a file that holds several.
        quiet: show no progress.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 16))
    >>> diagnose(X).headline, diagnose(X + 2).faults, diagnose(X + 2).repairs
    ('Healthy: none of 7 checks found a fault.', ['drift'], ['Centre()'])
    """
    cloud = read_matrix(matrix, allow_wide=allow_wide, sample=sample, seed=seed, key=key, quiet=quiet)
    found = Geometry(numbers(cloud))
    return Diagnosis(check_cloud(cloud, found["mean_cosine"], found["drift_ratio"]), found)
