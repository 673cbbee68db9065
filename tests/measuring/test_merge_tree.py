"""The tree over shards: it holds each of them once, children come before their parents, and finished cells are not made again."""

from dataclasses import replace

import pytest

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.measuring.merge_tree import FAN_IN, order_of_work, plan_merges
from isoscope.measuring.options import Options
from isoscope.measuring.task import Sources, Task
from isoscope.models.naming.model_name import ModelReference
from isoscope.runs.merging import shards_in
from isoscope.runs.stored_cell import manifest_of
from tests.runs.packing import write_made_cell


def plan_shards(folder, k):
    """The tasks of the k shards of one cell. Nothing of the model or the source is read to plan their merges."""
    reference = ModelReference("m", "m", folder, None, False, "main", "beef")
    whole = Task(folder, reference, Sources(("a.txt",), None, ("m",)), "text", Options(), {}, part=True)
    return [
        replace(whole, identity={"weights": "beef", "source": "layout", "block_hashes": {str(i): f"{i:x}"}, "shard": [i, k]})
        for i in range(k)
    ]


def finish(node):
    """Write the cell of a node."""
    task = node.task
    tables = make_table([], TABLE_COLUMNS), make_table([], SERIES_COLUMNS)
    write_made_cell(task.run, task.key, manifest_of(task.identity, {"model": "m"}, {}, "all"), *tables, list)


@pytest.mark.parametrize(("k", "nodes", "roots", "height"), [(1, 1, 1, 0), (16, 16, 16, 0), (17, 18, 2, 1), (300, 321, 2, 2)])
def test_every_shard_is_merged_exactly_once_and_after_it_is_measured(tmp_path, k, nodes, roots, height):
    shards = plan_shards(tmp_path, k)
    tree = plan_merges(shards)
    assert (len(tree), max(root.height for root in tree)) == (roots, height)
    assert sorted(i for root in tree for i in shards_in(root.task.identity)) == list(range(k))
    order = order_of_work(tree)
    place = {node.task.key: i for i, node in enumerate(order)}
    assert len(order) == len(place) == nodes == sum(1 for root in tree for _ in root.all_nodes())
    assert [node.task for node in order if not node.children] == shards
    used = [child.task.key for node in order for child in node.children]
    assert sorted([*used, *(root.task.key for root in tree)]) == sorted(place), "each cell is a root, or is merged into one other"
    for node in order:
        assert node.task.merges == tuple(child.task.key for child in node.children)
        assert len(node.children) <= FAN_IN
        assert all(place[child.task.key] < place[node.task.key] for child in node.children)
        below = [i for child in node.children for i in shards_in(child.task.identity)]
        assert not below or shards_in(node.task.identity) == sorted(below)


def test_other_shards_are_measured_between_the_last_child_and_its_merge(tmp_path):
    order = order_of_work(plan_merges(plan_shards(tmp_path, 300)))
    first = next(i for i, node in enumerate(order) if node.children)
    assert [node.task.identity["shard"][0] for node in order[:first]] == list(range(2 * FAN_IN - 1))


def test_all_that_lies_below_a_finished_cell_is_done(tmp_path):
    tree = plan_merges(plan_shards(tmp_path, 7), fan_in=2)
    assert [shards_in(root.task.identity) for root in tree] == [[0, 1, 2, 3], [4, 5, 6]]
    finish(tree[0].children[1])
    finish(tree[1].children[0].children[0])
    left = [shards_in(node.task.identity) for node in order_of_work(tree, fan_in=2)]
    assert sorted(left) == sorted([[0], [1], [0, 1], [0, 1, 2, 3], [5], [4, 5], [6], [4, 5, 6]])
    finish(tree[0])
    assert all(min(shards_in(node.task.identity)) > 3 for node in order_of_work(tree, fan_in=2))
