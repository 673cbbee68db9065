"""All measurements; those of one group share runs and are tested in one file."""

from tests.golden import measurements_matrices, measurements_models, measurements_studies, measurements_suites  # noqa: F401
from tests.golden.outcome import measurements

GROUPS = sorted({measurement.group for measurement in measurements.values()})
