"""Shards are merged as a tree: groups of them by the processes that measured them, and what is left by the process that planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from isoscope.measuring.task import Task

FAN_IN = 16
"""Cells that are merged into one at a time."""


@dataclass(frozen=True)
class MergeNode:
    """A cell of the tree: a shard, or the merged cells of its children."""

    task: Task
    children: tuple[MergeNode, ...] = ()

    @property
    def height(self) -> int:
        """0 for a shard, 1 for merged shards, and so on."""
        return 1 + max(child.height for child in self.children) if self.children else 0

    def all_nodes(self) -> Iterator[MergeNode]:
        """The nodes below this one, and itself."""
        for child in self.children:
            yield from child.all_nodes()
        yield self

    def unfinished(self) -> list[MergeNode]:
        """The nodes whose cells are still to be made. Those below a finished one are not needed any more, and may be deleted."""
        return [] if self.task.is_done else [node for child in self.children for node in child.unfinished()] + [self]


def plan_merges(shards: Sequence[Task], fan_in: int = FAN_IN) -> list[MergeNode]:
    """The roots of a tree over shards: at most `fan_in` cells, which hold all of them. Neighbours are merged first."""
    level = [MergeNode(shard) for shard in shards]
    while len(level) > fan_in:
        groups = [tuple(level[i : i + fan_in]) for i in range(0, len(level), fan_in)]
        level = [MergeNode(Task.merging([node.task for node in group]), group) if len(group) > 1 else group[0] for group in groups]
    return level


def order_of_work(roots: Sequence[MergeNode], fan_in: int = FAN_IN) -> list[MergeNode]:
    """The unfinished nodes, children before their parents; a merge comes so late that it hardly waits for its last child."""
    placed, shards = [], 0
    for node in (node for root in roots for node in root.unfinished()):
        shards += not node.children
        placed.append((shards + node.height * fan_in, node))
    return [node for _, node in sorted(placed, key=lambda pair: pair[0])]
