"""A world for every kind of verdict in which it should say nothing."""

from tests.papers.error_rates import Null
from tests.papers.nulls import drift, layers

NULLS: list[Null] = [*drift.NULLS, *layers.NULLS]
