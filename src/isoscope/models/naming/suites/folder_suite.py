"""The checkpoints in a folder, or under a pattern of paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from isoscope.core.user_input import expand_home
from isoscope.models.naming.suites.checkpoint_names import FIELD, LABEL, Member, Pattern, seed_in, step_in
from isoscope.trust.model_files import NOT_WEIGHTS

FILES = (".ckpt", ".pt", ".safetensors", ".bin")
"""Endings of checkpoints that are one file each, next to a config.json that they share."""
UNFINISHED = (".", "tmp-")
"""Prefixes of names that are still being written; the Trainer's is tmp-checkpoint-500."""
SUBFOLDERS = re.compile(r"checkpoints|lightning_logs|version_\d+")
"""Folders that Lightning puts between a training and its checkpoints."""


def find_members(folder: Path, seed: int | None = None) -> Iterator[Member]:
    """Folders and files with a step in their name, directly or under folders of seeds; anything else is skipped."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(UNFINISHED):
            continue
        is_folder = path.is_dir()
        name = path.name if is_folder else path.name.removesuffix(path.suffix)
        if (step := step_in(name)) and (is_folder or _is_weights(path)):
            yield Member(str(path), *step, _first_seed(seed_in(name), seed))
        elif is_folder and is_training_subfolder(path):
            yield from find_members(path, _first_seed(seed_in(name), seed))


def _first_seed(own: int | None, outer: int | None) -> int | None:
    return outer if own is None else own


def is_training_subfolder(folder: Path) -> bool:
    """Whether a folder lies between a training and its checkpoints: the folder of a seed, or one that Lightning makes."""
    return seed_in(folder.name) is not None or SUBFOLDERS.fullmatch(folder.name) is not None


def _is_weights(path: Path) -> bool:
    return path.suffix in FILES and not path.name.startswith(NOT_WEIGHTS)


def match_paths(pattern: Pattern) -> list[Member]:
    """The paths that a pattern stands for; none if it is no pattern of paths."""
    root = _fixed_folder(pattern)
    if not root.is_dir() or (root == Path() and not pattern.prefix.startswith("./")):
        return []
    # glob finds candidates; the pattern itself decides, because `{step}` is a number and `*` in glob is anything.
    expanded = Pattern(str(expand_home(pattern.text)))
    literal = re.sub(r"[\[?]", r"[\g<0>]", str(Path(expanded.text).relative_to(root)))  # glob gives these a meaning, a pattern does not
    relative = re.sub(r"\*+", "*", FIELD.sub("*", literal))
    return [member for path in sorted(root.glob(relative)) if (member := expanded.match(str(path)))]


def pattern_name(pattern: Pattern) -> str:
    """The name of the suite of a pattern of paths: the text before its step or seed, or the folder that it lies in.

    >>> pattern_name(Pattern("models/multiberts-seed_{seed}-step_{step}k")), pattern_name(Pattern("runs/mine/step_{step}.pt"))
    ('multiberts', 'mine')
    """
    before, folder = LABEL.sub("", pattern.prefix + "{step}"), _fixed_folder(pattern)
    return Path(before).name if before != str(folder) and before else folder.resolve().name


def _fixed_folder(pattern: Pattern) -> Path:
    """The folder up to which a pattern has no field."""
    start = expand_home(pattern.prefix)
    return start if pattern.prefix.endswith("/") else start.parent
