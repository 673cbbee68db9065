"""The processes that train one model together: they meet before the first look, agree on failures, and merge their statistics.

A look has collectives of its own, over a group of their own on the processor: the order of those of the training does not change.
"""

from __future__ import annotations

import itertools
import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch.distributed as dist

from isoscope.core.errors import IsoscopeError
from isoscope.runs.tensors import pack_statistics, unpack_statistics
from isoscope.statistics.any_statistics import merge_statistics

PATIENCE = timedelta(minutes=5)
"""How long a process waits for the others before the first look."""
_meetings = itertools.count()


class OtherRankUserError(IsoscopeError):
    """An error that the user can fix, in another process of the training, which reports it too."""


class OtherRankError(RuntimeError):
    """A bug in another process of the training, which reports it too."""

    def __init__(self, rank: int, kind_and_text: str, trace: str) -> None:
        super().__init__(f"on rank {rank}: {kind_and_text}")
        self.add_note(f"On rank {rank}:\n{trace}")


@dataclass(frozen=True)
class Share:
    """What the probe of one process is among those of all."""

    counts: bool
    """Whether its items count: of several processes with the same probe, only those of the first do."""
    sources: list[str]
    """The fingerprints of all probes that count, in the order of their processes."""


class Ranks:
    """All processes of a training, or this one alone."""

    def __init__(self) -> None:
        together = dist.is_available() and dist.is_initialized()
        self.rank: int = dist.get_rank() if together else 0
        self.size: int = dist.get_world_size() if together else 1
        self._group: Any = None
        self.share = Share(True, [])

    @property
    def alone(self) -> bool:
        """Whether this is the only process."""
        return self.size == 1

    def meet(self, terms: dict[str, Any], probe: str) -> None:
        """Wait for the other processes; an error, the same in all, if some do not watch or watch on other terms."""
        if self.alone or self._group is not None:
            return
        # Through the store, not by a collective: that would wait half an hour for a process that never comes, and then end this one.
        store, number = dist.distributed_c10d._get_default_store(), next(_meetings)
        keys = [f"isoscope/watch/{number}/{rank}" for rank in range(self.size)]
        store.set(keys[self.rank], json.dumps([terms, probe]))
        absent = [rank for rank, key in enumerate(keys) if not _comes(store, key)]
        if absent:
            raise IsoscopeError(
                f"isoscope.watch was not called in all {self.size} processes of this training: rank {', '.join(map(str, absent))} did not "
                f"come within {PATIENCE.seconds // 60} minutes; call it in every process, with the same arguments, or in none."
            )
        told = [json.loads(store.get(key)) for key in keys]
        for name, first in told[0][0].items():
            for rank, (theirs, _) in enumerate(told):
                if theirs[name] != first:
                    raise IsoscopeError(
                        f"The processes of this training watch differently: {name} is {first} on rank 0 and {theirs[name]} on rank {rank}; "
                        "give all the same arguments. Only the contents of their batches may differ."
                    )
        probes = [theirs for _, theirs in told]
        self.share = Share(probes.index(probe) == self.rank, list(dict.fromkeys(probes)))
        self._group = dist.new_group(backend="gloo")

    def gather(self, value: Any) -> list[Any]:
        """What each process has, by rank."""
        if self.alone:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, self._group)
        return values

    def attempt(self, act: Callable[[], Any]) -> Any:
        """What `act` returns, if it succeeds in all processes; otherwise raise, in all of them, so that they stay in step."""
        if self.alone:
            return act()
        result: Any = None
        error: Exception | None = None
        failure = ""
        try:
            result = act()
        except Exception as own:  # raised below, when the others know
            error, failure = own, traceback.format_exc()
        told = self.gather((isinstance(error, IsoscopeError), f"{type(error).__name__}: {error}", str(error), failure))
        if error is not None:
            raise error
        for rank, (is_user_error, kind_and_text, text, trace) in enumerate(told):
            if trace:
                raise OtherRankUserError(f"on rank {rank}: {text}") if is_user_error else OtherRankError(rank, kind_and_text, trace)
        return result

    def merge(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """On rank 0 the statistics of all processes whose items count, merged in the order of ranks; elsewhere None."""
        if self.alone:
            return arrays
        merged: dict[str, np.ndarray] | None = arrays if self.share.counts else None
        # In pairs, then pairs of pairs: no process receives more than log2(size) states, and none but the first waits for all.
        stride = 1
        while stride < self.size:
            if self.rank % (2 * stride):
                dist.send_object_list([merged], dst=self.rank - stride, group=self._group)
                return None
            if self.rank + stride < self.size:
                other: list[Any] = [None]
                dist.recv_object_list(other, src=self.rank + stride, group=self._group)
                merged = _merge(merged, other[0])
            stride *= 2
        return merged

    def part(self) -> None:
        """Let go of the group."""
        if self._group is not None and dist.is_initialized():
            dist.destroy_process_group(self._group)
        self._group = None


def _comes(store: Any, key: str) -> bool:
    try:
        store.wait([key], PATIENCE)
    except RuntimeError:  # all errors of a store are, and have no common class besides
        return False
    return True


def _merge(ours: dict[str, np.ndarray] | None, theirs: dict[str, np.ndarray] | None) -> dict[str, np.ndarray] | None:
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    first, second = unpack_statistics(ours), unpack_statistics(theirs)
    return dict(pack_statistics({site: merge_statistics(first[site], second[site]) for site in first}))
