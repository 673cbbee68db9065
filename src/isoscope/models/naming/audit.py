"""Faults of a suite of checkpoints, in plain sentences: repeated weights, untrained weights, missing steps."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from isoscope.core.wording import format_list, plain
from isoscope.models.naming.suite import Place, Suite
from isoscope.trust.model_files import weights_in

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class CheckpointRecord:
    """One checkpoint: hashes of all its tensors and of its matrices alone, or why it could not be used."""

    seed: int | None
    step: int
    tensors: str = ""
    matrices: str = ""
    problem: str = ""

    @property
    def place(self) -> Place:
        """Its seed and step."""
        return self.seed, self.step


def tensor_hashes(folder: Path) -> tuple[str, str]:
    """Two hashes of the weights in a folder: of all tensors, and of those with two axes or more.

    Names and values are hashed, not files, so that the same weights in another format have the same hashes.
    """
    import torch

    digests: dict[str, tuple[int, str]] = {}
    for path in weights_in(folder):
        for name, tensor in _read_tensors(path):
            digest = hashlib.sha256(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
            digests[name] = tensor.ndim, digest.hexdigest()
    in_order = [(axes, digest) for _, (axes, digest) in sorted(digests.items())]
    tensors, matrices = ("".join(digest for axes, digest in in_order if axes >= fewest) for fewest in (0, 2))
    return hashlib.sha256(tensors.encode()).hexdigest(), hashlib.sha256(matrices.encode()).hexdigest()


def _read_tensors(path: Path) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a file one at a time, because another model is in memory meanwhile."""
    from safetensors import safe_open

    from isoscope.models.loading.weights import damaged_safetensors_as_user_errors, read_file

    if path.suffix != ".safetensors":
        yield from read_file(path).items()  # mapped, so that only tensors in use take memory
        return
    with damaged_safetensors_as_user_errors(path), safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118
            yield name, file.get_tensor(name)


def find_faults(suite: Suite, records: list[CheckpointRecord]) -> list[str]:
    """Everything that is wrong, one sentence each: checkpoints that could not be used, weights that repeat, steps that are missing."""
    usable = [record for record in records if not record.problem]
    sentences = [f"{suite.describe_checkpoint(*record.place)}, was not measured: {record.problem}" for record in records if record.problem]
    sentences += [f"{suite.describe_checkpoint(*place)}, was asked for and is not there." for place in suite.absent]
    sentences += _repeated_weights(suite, usable) + _untrained_matrices(suite, usable) + _missing_steps(suite)
    return [plain(sentence) for sentence in sentences]


def _repeated_weights(suite: Suite, records: list[CheckpointRecord]) -> list[str]:
    """Checkpoints with the same weights; seeds may share their step 0."""
    groups: dict[str, list[Place]] = {}
    for record in records:
        groups.setdefault(record.tensors, []).append(record.place)
    same = [places for places in groups.values() if len({step for _, step in places}) > 1 or (len(places) > 1 and places[0][1] > 0)]
    return [f"{_name_places(suite, places)} hold the same weights, bit for bit: one was saved in the place of another." for places in same]


def _name_places(suite: Suite, places: list[Place]) -> str:
    if len({seed for seed, _ in places}) == 1:
        return f"{suite.describe_seed(places[0][0])}: the steps {format_list(str(step) for _, step in places)}"
    return f"{suite.name}: {format_list(f'step {step} of seed {seed}' for seed, step in places)}"


def _untrained_matrices(suite: Suite, records: list[CheckpointRecord]) -> list[str]:
    """Checkpoints whose matrices are those of a step 0 although some other weight is not."""
    first = {record.matrices: record for record in records if record.step == 0}
    later = [record for record in records if record.step > 0 and record.matrices in first]
    same = [record for record in later if record.tensors != first[record.matrices].tensors]
    return [
        f"{suite.describe_checkpoint(*record.place)}: every matrix is that of step 0, bit for bit: re-initialised, or never trained."
        for record in same
    ]


def _missing_steps(suite: Suite) -> list[str]:
    """Steps that other seeds have, and holes in a regular grid; a seed with only its first and last step lacks nothing."""
    steps_by_seed: dict[int | None, list[int]] = {}
    for checkpoint in suite.checkpoints:
        steps_by_seed.setdefault(checkpoint.seed, []).append(checkpoint.step)
    every = sorted({step for steps in steps_by_seed.values() for step in steps})
    sentences = []
    for seed, steps in steps_by_seed.items():
        lacking = [step for step in every if step not in steps and (seed, step) not in suite.absent]
        if lacking and steps not in ([every[0], every[-1]], [every[-1]]):
            sentences.append(f"{suite.describe_seed(seed)}: {_steps_are(lacking)} missing, which other seeds have.")
    if skipped := [step for step in missing_grid_steps(every) if all(step != absent for _, absent in suite.absent)]:
        sentences.append(f"{suite.name}: {_steps_are(skipped)} missing, by the spacing of the others.")
    return sentences


def _steps_are(steps: list[int]) -> str:
    return f"step {steps[0]} is" if len(steps) == 1 else f"the steps {format_list(map(str, steps))} are"


def missing_grid_steps(steps: list[int]) -> list[int]:
    """Steps that a grid of equal or of doubling distances would have; none if so many are missing that it is hardly a grid.

    >>> missing_grid_steps([0, 100, 200, 400, 500]), missing_grid_steps([0, 1, 2, 4, 16, 32, 64])
    ([300], [8])
    >>> missing_grid_steps([0, 1, 2, 4, 8, 16, 1000, 2000])
    []
    """
    positive = [step for step in steps if step > 0]
    doubling = [positive[0] * 2**i for i in range((positive[-1] // positive[0]).bit_length())] if positive else []
    unit = min((b - a for a, b in pairwise(steps)), default=1)
    even = list(range(steps[0], steps[-1] + 1, unit)) if steps and (steps[-1] - steps[0]) // unit < 2 * len(steps) else []
    for grid, present in ((doubling, positive), (even, steps)):
        same_ends = present[:2] == grid[:2] and present[-2:] == grid[-2:]
        if len(present) >= 4 and same_ends and set(present) <= set(grid) and len(grid) - len(present) <= len(present) // 4:
            return [step for step in grid if step not in present]
    return []
