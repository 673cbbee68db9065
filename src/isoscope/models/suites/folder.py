"""The checkpoints that lie in a folder, or under a pattern of paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from isoscope.core.names import expand_home
from isoscope.models.formats.weights import NOT_WEIGHTS
from isoscope.models.suites.names import FIELD, LABEL, Member, Pattern, seed_in, step_in

FILES = (".ckpt", ".pt", ".safetensors", ".bin")
"""Endings of checkpoints that are a file each, beside the config.json of them all."""
UNFINISHED = (".", "tmp-")
"""How names begin of what is being written; the Trainer's is tmp-checkpoint-500."""
BETWEEN = re.compile(r"checkpoints|lightning_logs|version_\d+")
"""Folders that Lightning puts between a training and its checkpoints."""


def members_in(folder: Path, seed: int | None = None) -> Iterator[Member]:
    """Folders and files with a step in their name, at once or under folders of seeds; anything else is passed over."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(UNFINISHED):
            continue
        is_folder = path.is_dir()
        name = path.name if is_folder else path.name.removesuffix(path.suffix)
        if (step := step_in(name)) and (is_folder or _is_weights(path)):
            own = seed_in(name)
            yield Member(str(path), *step, own if own is not None else seed)
        elif is_folder and is_between(path):
            own = seed_in(name)
            yield from members_in(path, own if own is not None else seed)


def is_between(folder: Path) -> bool:
    """Whether a folder is a part of a training that holds checkpoints: a seed, or one that Lightning makes."""
    return seed_in(folder.name) is not None or BETWEEN.fullmatch(folder.name) is not None


def _is_weights(path: Path) -> bool:
    return path.suffix in FILES and not path.name.startswith(NOT_WEIGHTS)


def members_of(pattern: Pattern) -> list[Member]:
    """The paths that a pattern stands for; none where it is no pattern of paths."""
    root = _root(pattern)
    if not root.is_dir() or (root == Path() and not pattern.start.startswith("./")):
        return []
    expanded = Pattern(str(expand_home(pattern.text)))
    literal = re.sub(r"[\[?]", r"[\g<0>]", str(Path(expanded.text).relative_to(root)))  # in a name these stand for themselves
    relative = re.sub(r"\*+", "*", FIELD.sub("*", literal))
    return [member for path in sorted(root.glob(relative)) if (member := expanded.match(str(path)))]


def name_of(pattern: Pattern) -> str:
    """What the suite of a pattern of paths is called: what stands before its step or seed, or the folder that it lies in.

    >>> name_of(Pattern("models/multiberts-seed_{seed}-step_{step}k")), name_of(Pattern("runs/mine/step_{step}.pt"))
    ('multiberts', 'mine')
    """
    before = LABEL.sub("", pattern.text[: len(pattern.start)] + "{step}")
    return Path(before).name if before != str(_root(pattern)) and before else _root(pattern).resolve().name


def _root(pattern: Pattern) -> Path:
    start = expand_home(pattern.start)
    return start if pattern.start.endswith("/") else start.parent
