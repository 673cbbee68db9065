"""One pure function a file: statistic → number. `isoscope.metrics.mean_cosine(X)` takes a matrix (n, d) or a cloud.

Adding a metric is adding one file here (or in a folder `metrics` of `ISOSCOPE_PLUGINS`): a function of the file's name under
`@metric`; for what is not one number, under `@series`; for a number of a whole stack, under `@profile`.
"""

from __future__ import annotations

from isoscope.core.registry import Registry
from isoscope.statistics.metric import Metric, Series
from isoscope.statistics.profile import Profile

registry: Registry[Metric | Series | Profile] = Registry((Metric, Series, Profile), "metric", __name__)

# A file and a function may share a name. The package offers the function.
globals().update({entry.name: entry for entry in registry})


def metrics(about: str | None = None) -> list[Metric]:
    """Every metric, by name; those of `points` or of `attention` alone, where that is said."""
    return [entry for entry in registry if isinstance(entry, Metric) and about in (None, entry.about)]


def curves(about: str | None = None) -> list[Series]:
    """Every series, by name; those of `points` or of `attention` alone, where that is said."""
    return [entry for entry in registry if isinstance(entry, Series) and about in (None, entry.about)]


def profiles() -> list[Profile]:
    """Every profile, by name."""
    return [entry for entry in registry if isinstance(entry, Profile)]
