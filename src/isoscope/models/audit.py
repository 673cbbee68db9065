"""What can be wrong with a suite of checkpoints, in plain sentences."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from isoscope.core.errors import IsoscopeError
from isoscope.core.printable import plain
from isoscope.models.formats.weights import weights_in
from isoscope.models.suite import Suite

if TYPE_CHECKING:
    from torch import Tensor

Place = tuple[int | None, int]
"""Seed and step."""


@dataclass(frozen=True)
class Seen:
    """What is known of one checkpoint: hashes of all its tensors and of its matrices alone, or why it could not be used."""

    seed: int | None
    step: int
    tensors: str = ""
    matrices: str = ""
    problem: str = ""

    @property
    def place(self) -> Place:
        """Where it belongs."""
        return self.seed, self.step


def hashes(folder: Path) -> tuple[str, str]:
    """Hashes of all tensors of a folder, and of those with two axes or more: of names and values, not of files."""
    import torch

    found: dict[str, tuple[int, str]] = {}
    for path in weights_in(folder):
        for name, tensor in _tensors(path):
            digest = hashlib.sha256(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
            found[name] = tensor.ndim, digest.hexdigest()
    every = [(axes, digest) for _, (axes, digest) in sorted(found.items())]
    whole, matrices = ("".join(digest for axes, digest in every if axes > least) for least in (-1, 1))
    return hashlib.sha256(whole.encode()).hexdigest(), hashlib.sha256(matrices.encode()).hexdigest()


def _tensors(path: Path) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a file one at a time: another model is in memory while this one is looked at."""
    from safetensors import SafetensorError, safe_open

    from isoscope.models.formats.state import read_file

    if path.suffix != ".safetensors":
        yield from read_file(path).items()  # mapped
        return
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                yield name, file.get_tensor(name)
    except (SafetensorError, OverflowError, RuntimeError, TypeError, ValueError) as error:  # a shape that torch has no word for
        raise IsoscopeError(f"The weights in {path} are damaged ({error}); copy or download the file again.") from error


def faults(suite: Suite, seen: list[Seen]) -> list[str]:
    """Everything that is wrong, one sentence each: what could not be had, then weights that repeat, then steps that are missing."""
    usable = [one for one in seen if not one.problem]
    said = [f"{suite.at(*one.place)}, was not measured: {one.problem}" for one in seen if one.problem]
    said += [f"{suite.at(*place)}, was asked for and is not there." for place in suite.absent]
    return [plain(one) for one in said + _equal(suite, usable) + _untrained(suite, usable) + _missing(suite)]


def _equal(suite: Suite, seen: list[Seen]) -> list[str]:
    """Checkpoints that hold the same weights; seeds may share their step 0."""
    groups: dict[str, list[Place]] = {}
    for one in seen:
        groups.setdefault(one.tensors, []).append(one.place)
    same = [places for places in groups.values() if len({step for _, step in places}) > 1 or (len(places) > 1 and places[0][1] > 0)]
    return [f"{_in_words(suite, places)} hold the same weights, bit for bit: one was saved in the place of another." for places in same]


def _in_words(suite: Suite, places: list[Place]) -> str:
    if len({seed for seed, _ in places}) == 1:
        return f"{suite.of(places[0][0])}: the steps {_listed([str(step) for _, step in places])}"
    return f"{suite.name}: {_listed([f'step {step} of seed {seed}' for seed, step in places])}"


def _listed(words: list[str]) -> str:
    """
    >>> _listed(["1", "2", "3"])
    '1, 2 and 3'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _untrained(suite: Suite, seen: list[Seen]) -> list[str]:
    """Checkpoints whose matrices are those of a step 0 although some other weight is not."""
    first = {one.matrices: one for one in seen if one.step == 0}
    found = [one for one in seen if one.step > 0 and one.matrices in first and one.tensors != first[one.matrices].tensors]
    return [f"{suite.at(*one.place)}: every matrix is that of step 0, bit for bit: re-initialised, or never trained." for one in found]


def _missing(suite: Suite) -> list[str]:
    """Steps that other seeds have, and holes in a regular grid; a seed of which only the first and last step were kept lacks nothing."""
    own: dict[int | None, list[int]] = {}
    for one in suite.checkpoints:
        own.setdefault(one.seed, []).append(one.step)
    every = sorted({step for steps in own.values() for step in steps})
    said = []
    for seed, steps in own.items():
        lacks = [step for step in every if step not in steps and (seed, step) not in suite.absent]
        if lacks and steps not in ([every[0], every[-1]], [every[-1]]):
            said.append(f"{suite.of(seed)}: {_steps(lacks)} missing, which other seeds have.")
    if skipped := [step for step in holes(every) if all(step != absent for _, absent in suite.absent)]:
        said.append(f"{suite.name}: {_steps(skipped)} missing, by the spacing of the others.")
    return said


def _steps(steps: list[int]) -> str:
    return f"step {steps[0]} is" if len(steps) == 1 else f"the steps {_listed([str(step) for step in steps])} are"


def holes(steps: list[int]) -> list[int]:
    """Steps that a grid of equal distances, or of doubling ones, would have; none where too many would be missing for it to be one.

    >>> holes([0, 100, 200, 400, 500]), holes([0, 1, 2, 4, 16, 32, 64]), holes([0, 1, 2, 4, 8, 16, 1000, 2000])
    ([300], [8], [])
    """
    positive = [step for step in steps if step > 0]
    doubled = [positive[0] * 2**i for i in range((positive[-1] // positive[0]).bit_length())] if positive else []
    unit = min((b - a for a, b in pairwise(steps)), default=1)
    even = list(range(steps[0], steps[-1] + 1, unit)) if steps and (steps[-1] - steps[0]) // unit < 2 * len(steps) else []
    for grid, mine in ((doubled, positive), (even, steps)):
        ends = mine[:2] == grid[:2] and mine[-2:] == grid[-2:]
        if len(mine) >= 4 and ends and set(mine) <= set(grid) and len(grid) - len(mine) <= len(mine) // 4:
            return [step for step in grid if step not in mine]
    return []
