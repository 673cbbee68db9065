"""What the host knows about a batch before the forward pass, as tensors on the device: they are sent once with the batch.

Which point belongs to which slice, group and item, and which points the sample takes, depends on no value. So an update on the device
never has to ask, and the host never waits for it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from isoscope.models.tapping.layout import Layout
from isoscope.statistics.kernel import DENSE
from isoscope.statistics.sample import Hashes, Sample

LARGEST_HASH = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class BatchPlan:
    """The positions of one layout."""

    slices: int
    dtype: torch.dtype
    codes: Tensor
    """(b, t) the slice of each position; −1 for padding."""
    padded: bool
    counts: np.ndarray
    """(slices,) how many points each slice has; on the host."""
    dense: dict[int, Tensor | None]
    """The slices that fill much of the batch, with the flat positions outside them (None: all are inside)."""
    picks: int
    """How many points are taken out one by one: those of other slices, slice by slice, and those that the sample takes."""
    pick_rows: Tensor
    pick_columns: Tensor
    """The sequences and the positions of these points."""
    rare: dict[int, slice]
    """Where the points of each of these slices lie among the picks."""
    rare_positions: Tensor
    rare_codes: Tensor
    rare_cells: Tensor
    """The place of these points in a table of sequences × slices."""
    group: Tensor
    """(b,) the group of each sequence."""
    alone: Tensor
    alone_group: Tensor
    """The sequences that are a whole item each, and their groups."""
    parts: Tensor
    place: Tensor
    """The other sequences, and where the sums of the item of each are collected."""
    done: Tensor
    done_group: Tensor
    """The places of the items that end in this batch after more than one sequence, and their groups."""
    rows: Tensor
    """The rows of the sample that its points are written to."""

    @cached_property
    def members(self) -> Tensor:
        """(b, slices, t) 1 where a position belongs to a slice."""
        return (self.codes[:, None] == torch.arange(self.slices, device=self.codes.device)[:, None]).to(self.dtype)

    @cached_property
    def points(self) -> Tensor:
        """(b, slices) the number of points of each sequence."""
        return self.members.sum(-1)

    @cached_property
    def padding(self) -> Tensor:
        """(b, t) bool, where padding is."""
        return self.codes < 0


def send_integers(arrays: list[np.ndarray], device: torch.device) -> list[Tensor]:
    """Return these arrays as tensors on the device, sent in one piece."""
    joined = torch.from_numpy(np.concatenate([np.asarray(array, dtype=np.int64).ravel() for array in arrays]))
    if device.type == "cuda":
        joined = joined.pin_memory()  # else the host would wait for the copy
    sent = joined.to(device, non_blocking=True)
    return [part.view(array.shape) for part, array in zip(sent.split([array.size for array in arrays]), arrays, strict=True)]


class Planner:
    """Makes the plans of a stream of layouts, one after the other."""

    def __init__(self, slices: int, groups: int, k: int, device: torch.device, dtype: torch.dtype) -> None:
        self.slices, self.device, self.dtype = slices, device, dtype
        self.units = np.zeros(groups, dtype=np.int64)
        """How many items of each group have ended."""
        self.places = 0
        """How many items of more than one sequence were open at once, at most."""
        self.sample = SampleRows(k)
        self._open: dict[int, int] = {}
        self._free: list[int] = []

    def plan(self, layout: Layout) -> BatchPlan:
        """Make the plan of one layout."""
        codes = layout.codes.astype(np.int64)
        flat, t = codes.ravel(), codes.shape[1]
        counts = np.bincount(flat[flat >= 0], minlength=self.slices)
        dense = {code: np.flatnonzero(flat != code) for code in np.flatnonzero(counts > DENSE * flat.size).tolist()}
        rare = [code for code in np.flatnonzero(counts).tolist() if code not in dense]
        taken = np.concatenate([np.zeros(0, np.int64), *(np.flatnonzero(flat == code) for code in rare)])
        ends = np.cumsum([0, *counts[rare]]).tolist()
        chosen, rows = self.sample.choose(layout)
        group = layout.group % len(self.units)
        alone = self._is_alone(layout)
        parts, ending = np.flatnonzero(~alone), layout.last & ~alone
        place, done = self._assign_places(layout.unit[parts], layout.last[parts])
        np.add.at(self.units, group[layout.last], 1)
        taken_codes = flat[taken]
        arrays = [codes, taken, taken_codes, taken // t * self.slices + taken_codes, (picks := np.concatenate([taken, chosen])) // t, rows]
        arrays += [group, place, done, group[ending], np.flatnonzero(alone), group[alone], parts, picks % t, *dense.values()]
        sent = send_integers(arrays, self.device)
        return BatchPlan(
            slices=self.slices,
            dtype=self.dtype,
            codes=sent[0],
            padded=bool((flat < 0).any()),
            counts=counts,
            dense={code: outside if len(outside) else None for code, outside in zip(dense, sent[14:], strict=True)},
            picks=len(picks),
            pick_rows=sent[4],
            pick_columns=sent[13],
            rare={code: slice(ends[i], ends[i + 1]) for i, code in enumerate(rare)},
            rare_positions=sent[1],
            rare_codes=sent[2],
            rare_cells=sent[3],
            group=sent[6],
            alone=sent[10],
            alone_group=sent[11],
            parts=sent[12],
            place=sent[7],
            done=sent[8],
            done_group=sent[9],
            rows=sent[5],
        )

    def _is_alone(self, layout: Layout) -> np.ndarray:
        """(b,) whether a sequence is all of its item: nothing of it has to be kept. A batch may hold thousands of short ones."""
        units = layout.unit.tolist()
        count = Counter(units)
        is_single = np.array([count[unit] == 1 and unit not in self._open for unit in units], dtype=bool)
        return np.asarray(layout.last & is_single)

    def _assign_places(self, units: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The place of the item of each sequence, and the places of the items that end here; they are free again afterwards."""
        place = np.zeros(len(units), dtype=np.int64)
        for i, unit in enumerate(units.tolist()):
            if unit not in self._open:
                if not self._free:
                    self._free.append(self.places)
                    self.places += 1
                self._open[unit] = self._free.pop()
            place[i] = self._open[unit]
        done = place[last]
        for unit in units[last].tolist():
            self._free.append(self._open.pop(unit))
        return place, done


class SampleRows:
    """Which points a sample holds, and in which row of its buffer each lies. The points themselves are on the device."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.hashes: Hashes = np.zeros(0, np.uint64)
        self.unit: Hashes = np.zeros(0, np.uint64)
        self.index, self.slice, self.row = np.zeros(0, np.int64), np.zeros(0, np.int16), np.zeros(0, np.int64)

    def choose(self, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
        """The flat positions of a batch that enter the sample, and the rows that they are written to: free ones, or those of points that
        leave it."""
        hashes, codes = layout.hashes.ravel(), layout.codes.ravel()
        limit = self.hashes[-1] if len(self.hashes) == self.k and self.k else LARGEST_HASH
        new = np.flatnonzero((hashes <= limit) & (codes >= 0)) if self.k else np.zeros(0, np.int64)
        if not len(new):
            return new, new
        joined = {
            "hashes": np.concatenate([self.hashes, hashes[new]]),
            "unit": np.concatenate([self.unit, layout.item[new // layout.codes.shape[1]]]),
            "index": np.concatenate([self.index, layout.index.ravel()[new]]),
            "slice": np.concatenate([self.slice, codes[new]]),
            "row": np.concatenate([self.row, np.full(len(new), -1)]),
        }
        order = np.lexsort((joined["index"], joined["unit"], joined["hashes"]))[: self.k]
        for name, values in joined.items():
            setattr(self, name, values[order])
        enters = self.row < 0
        free = np.setdiff1d(np.arange(self.k), self.row[~enters])[: enters.sum()]
        self.row[enters] = free
        return new[order[enters] - (len(joined["row"]) - len(new))], free

    def sample(self, points: np.ndarray) -> Sample:
        """The sample, from the buffer (k, d) of its points."""
        sample = Sample(points.shape[1], self.k)
        sample.update(points[self.row], self.hashes, self.unit, self.index, self.slice)
        return sample
