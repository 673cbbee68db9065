"""A world for every kind of verdict in which it should say nothing."""

from tests.claims.error_rates import Null
from tests.claims.nulls import alignment, blocks, dimension, drift, groups, layers, local, orders, shape, shape_claims, suites

NULLS: list[Null] = [
    null
    for topic in (drift, layers, shape, shape_claims, groups, dimension, local, alignment, orders, suites, blocks)
    for null in topic.NULLS
]
