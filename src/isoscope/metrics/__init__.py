"""Metrics: pure functions from a cloud to a number. `isoscope.metrics.mean_cosine(X)` takes a matrix (n, d) or a cloud.

A file holds one idea and declares its variants: functions under `@metric` (one number), `@series` (a curve) or `@profile` (one number per
stack). To add one, add a file here or in a folder `metrics` of `ISOSCOPE_PLUGINS`.
"""

from __future__ import annotations

from isoscope.core.registry import Registry
from isoscope.estimation.metric import Metric, Series, Subject
from isoscope.estimation.profile import Profile

registry: Registry[Metric | Series | Profile] = Registry((Metric, Series, Profile), "metric", __name__)

# A file and a metric may share a name. The attribute of the package is the metric.
globals().update({entry.name: entry for entry in registry})


def metrics(subject: Subject | None = None) -> list[Metric]:
    """Every metric by name, or those of `points` or `attention` only."""
    return [entry for entry in registry if isinstance(entry, Metric) and subject in (None, entry.subject)]


def curves(subject: Subject | None = None) -> list[Series]:
    """Every series by name, or those of `points` or `attention` only."""
    return [entry for entry in registry if isinstance(entry, Series) and subject in (None, entry.subject)]


def profiles() -> list[Profile]:
    """Every profile by name."""
    return [entry for entry in registry if isinstance(entry, Profile)]
