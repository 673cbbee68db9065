"""Checkpoints by name: the step and the seed in a name, patterns of names, and the checkpoints in a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from isoscope.core.errors import IsoscopeError
from isoscope.core.user_input import expand_home
from isoscope.trust.model_files import NOT_WEIGHTS

STEP = re.compile(r"(?:^|[-_.=])(?:global[-_]?step|steps?|checkpoint|ckpt|iter|iteration)[-_=]?(\d+)(k?)(?=$|[-_.])", re.IGNORECASE)
"""checkpoint-500 of the Trainer, epoch=1-step=500 of Lightning, step_500 of most others."""
NUMBER = re.compile(r"(\d+)(k?)")
SEED = re.compile(r"(?:^|[-_.=])seed[-_=]?(\d+)(?=$|[-_.])", re.IGNORECASE)
FIELD = re.compile(r"\{(step|seed)\}|(\*)")
LABEL = re.compile(r"[-_.=/]*(?:(?:global_?)?step|checkpoint|ckpt|iter|seed)?[-_.=]*(?:\{(?:step|seed)\}|\*)k?", re.IGNORECASE)

FILES = (".ckpt", ".pt", ".safetensors", ".bin")
"""Endings of checkpoints that are one file each, next to a config.json that they share."""
UNFINISHED = (".", "tmp-")
"""Prefixes of names that are still being written; the Trainer's is tmp-checkpoint-500."""
SUBFOLDERS = re.compile(r"checkpoints|lightning_logs|version_\d+")
"""Folders that Lightning puts between a training and its checkpoints."""


@dataclass(frozen=True)
class Member:
    """A checkpoint that exists, or that the hub may have. `number` is the step as written in its name: 20 for `step_20k`."""

    spec: str
    number: int
    step: int
    seed: int | None


def step_in(name: str) -> tuple[int, int] | None:
    """The step in a name, as written and in steps; None if there is none.

    >>> step_in("checkpoint-500"), step_in("epoch=1-step=500"), step_in("multiberts-seed_0-step_20k"), step_in("512"), step_in("last")
    ((500, 500), (500, 500), (20, 20000), (512, 512), None)
    """
    match = STEP.search(name) or NUMBER.fullmatch(name)
    return (int(match[1]), int(match[1]) * (1000 if match[2] else 1)) if match else None


def seed_in(name: str) -> int | None:
    """The seed in a name.

    >>> seed_in("seed-3"), seed_in("multiberts-seed_0-step_20k"), seed_in("seedling")
    (3, 0, None)
    """
    match = SEED.search(name)
    return int(match[1]) if match else None


@dataclass(frozen=True)
class Pattern:
    """A name with `{step}`, and `{seed}` if there are several; `*` stands for anything that a listing has in its place."""

    text: str

    def __post_init__(self) -> None:
        for field in re.findall(r"\{(\w*)\}", self.text):
            if field not in ("step", "seed"):
                raise IsoscopeError(f"A pattern of checkpoints has {{step}} and may have {{seed}}; {self.text} has {{{field}}}.")
        if self.text.count("{step}") != 1 or self.text.count("{seed}") > 1:
            raise IsoscopeError(f"A pattern of checkpoints has {{step}} once and {{seed}} once at most; got {self.text}.")

    @property
    def has_seeds(self) -> bool:
        """Whether it has a field for the seed."""
        return "{seed}" in self.text

    @property
    def has_wildcard(self) -> bool:
        """Whether only a listing can tell which names it stands for."""
        return "*" in self.text

    @property
    def prefix(self) -> str:
        """The text with which every name begins."""
        field = FIELD.search(self.text)
        return self.text[: field.start()] if field else self.text

    @property
    def name(self) -> str:
        """The name of the suite: the pattern without step, seed and the words that announce them.

        >>> Pattern("google/multiberts-seed_{seed}-step_{step}k").name
        'google/multiberts'
        """
        return LABEL.sub("", self.text.partition("@")[0]) or self.text

    def fill(self, number: int, seed: int | None) -> Member:
        """The checkpoint at a step; `k` after `{step}` means thousands."""
        spec = self.text.replace("{step}", str(number)).replace("{seed}", str(seed))
        return Member(spec, number, number * (1000 if "{step}k" in self.text else 1), seed)

    def match(self, name: str) -> Member | None:
        """The checkpoint of this name, if it is one."""
        # The wildcard takes as little as it can, so that a number next to it keeps all its digits.
        groups = {"{step}": r"(?P<step>\d+)", "{seed}": r"(?P<seed>\d+)", "*": "[^/]*?"}
        escaped = re.escape(re.sub(r"\*+", "*", self.text))
        expression = re.sub(r"\\\{(step|seed)\\\}|\\\*", lambda field: groups[field[0].replace("\\", "")], escaped)
        match = re.fullmatch(expression, name)
        if not match:
            return None
        return replace(self.fill(int(match["step"]), int(match["seed"]) if self.has_seeds else None), spec=name)


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
