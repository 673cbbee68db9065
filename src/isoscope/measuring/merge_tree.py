"""Shards are merged as a tree: groups of them by the processes that measured them, and what is left by the process that planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock

from isoscope.measuring.scheduler import Scheduler
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


def submit_after(earlier: Sequence[Future[list[str]]], scheduler: Scheduler, task: Task) -> Future[list[str]]:
    """Submit a task once others are finished; its future holds their error if one of them failed."""
    outer: Future[list[str]] = Future()
    left, lock = len(earlier), Lock()

    def pass_on(future: Future[list[str]]) -> None:
        error = future.exception()
        outer.set_result(future.result()) if error is None else outer.set_exception(error)

    def count_down(_: object = None) -> None:
        nonlocal left
        with lock:
            left -= 1
            if left > 0:
                return
        try:
            error = next((error for future in earlier if (error := future.exception())), None)
            if error is None:
                scheduler.submit(task).add_done_callback(pass_on)
            else:
                outer.set_exception(error)
        except BaseException as failure:  # this is a callback: an exception would only be logged, and `outer` would never end
            outer.set_exception(failure)

    for future in earlier:
        future.add_done_callback(count_down)
    return outer
