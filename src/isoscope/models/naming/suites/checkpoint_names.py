"""The step and the seed in the name of a checkpoint, whether a training loop, a library or a user's pattern gave it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from isoscope.core.errors import IsoscopeError

STEP = re.compile(r"(?:^|[-_.=])(?:global[-_]?step|steps?|checkpoint|ckpt|iter|iteration)[-_=]?(\d+)(k?)(?=$|[-_.])", re.IGNORECASE)
"""checkpoint-500 of the Trainer, epoch=1-step=500 of Lightning, step_500 of most others."""
NUMBER = re.compile(r"(\d+)(k?)")
SEED = re.compile(r"(?:^|[-_.=])seed[-_=]?(\d+)(?=$|[-_.])", re.IGNORECASE)
FIELD = re.compile(r"\{(step|seed)\}|(\*)")
LABEL = re.compile(r"[-_.=/]*(?:(?:global_?)?step|checkpoint|ckpt|iter|seed)?[-_.=]*(?:\{(?:step|seed)\}|\*)k?", re.IGNORECASE)


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
