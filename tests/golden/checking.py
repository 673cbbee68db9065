"""What the files of tests have in common: measure, compare, and say what differs."""

from tests.golden.measurements import measurements
from tests.golden.outcome import compare_outcomes, read_outcome
from tests.golden.workshop import Workshop

MOST = 20
"""Differences that a failure lists."""


def list_names(group: str) -> list[str]:
    """The measurements of a group."""
    return [name for name, measurement in measurements.items() if measurement.group == group]


def check_stored(name: str, workshop: Workshop) -> None:
    """Measure, and fail with a sentence for each difference from what is stored."""
    measurement = measurements[name]
    found = compare_outcomes(name, read_outcome(name), measurement.carry_out(workshop), measurement.tolerance)
    more = f"\n… and {len(found) - MOST:,} more" if len(found) > MOST else ""
    assert not found, f"{len(found):,} differences from the stored values:\n" + "\n".join(found[:MOST]) + more
