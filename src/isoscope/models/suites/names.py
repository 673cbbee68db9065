"""The step and the seed in a name, whoever gave it: a training loop, a library, or a user's pattern."""

from __future__ import annotations

import re
from dataclasses import dataclass

from isoscope.core.errors import IsoscopeError

STEP = re.compile(r"(?:^|[-_.=])(?:global[-_]?step|steps?|checkpoint|ckpt|iter|iteration)[-_=]?(\d+)(k?)(?=$|[-_.])", re.IGNORECASE)
"""checkpoint-500 of the Trainer, epoch=1-step=500 of Lightning, step_500 of most others."""
NUMBER = re.compile(r"(\d+)(k?)")
SEED = re.compile(r"(?:^|[-_.=])seed[-_=]?(\d+)(?=$|[-_.])", re.IGNORECASE)
FIELD = re.compile(r"\{(step|seed)\}|(\*)")
LABEL = re.compile(r"[-_.=/]*(?:(?:global_?)?step|checkpoint|ckpt|iter|seed)?[-_.=]*(?:\{(?:step|seed)\}|\*)k?", re.IGNORECASE)


@dataclass(frozen=True)
class Member:
    """A checkpoint that was found or is hoped for. `number` is the step as it stands in its name: of `step_20k` it is 20."""

    spec: str
    number: int
    step: int
    seed: int | None


def step_in(name: str) -> tuple[int, int] | None:
    """The step in a name, as it stands there and in steps; None where there is none.

    >>> step_in("checkpoint-500"), step_in("epoch=1-step=500"), step_in("multiberts-seed_0-step_20k"), step_in("512"), step_in("last")
    ((500, 500), (500, 500), (20, 20000), (512, 512), None)
    """
    found = STEP.search(name) or NUMBER.fullmatch(name)
    return (int(found[1]), int(found[1]) * (1000 if found[2] else 1)) if found else None


def seed_in(name: str) -> int | None:
    """The seed in a name.

    >>> seed_in("seed-3"), seed_in("multiberts-seed_0-step_20k"), seed_in("seedling")
    (3, 0, None)
    """
    found = SEED.search(name)
    return int(found[1]) if found else None


@dataclass(frozen=True)
class Pattern:
    """A name with `{step}`, and `{seed}` where there are several; `*` stands for anything that a listing has there."""

    text: str

    def __post_init__(self) -> None:
        for field in re.findall(r"\{(\w*)\}", self.text):
            if field not in ("step", "seed"):
                raise IsoscopeError(f"A pattern of checkpoints has {{step}} and may have {{seed}}; {self.text} has {{{field}}}.")
        if self.text.count("{step}") != 1 or self.text.count("{seed}") > 1:
            raise IsoscopeError(f"A pattern of checkpoints has {{step}} once and {{seed}} once at most; got {self.text}.")

    @property
    def seeded(self) -> bool:
        """Whether it has seeds."""
        return "{seed}" in self.text

    @property
    def open(self) -> bool:
        """Whether only a listing can say which names it stands for."""
        return "*" in self.text

    @property
    def start(self) -> str:
        """What every name begins with."""
        found = FIELD.search(self.text)
        return self.text[: found.start()] if found else self.text

    @property
    def name(self) -> str:
        """What the suite is called: the pattern without step, seed and the words that announce them.

        >>> Pattern("google/multiberts-seed_{seed}-step_{step}k").name
        'google/multiberts'
        """
        return LABEL.sub("", self.text.partition("@")[0]) or self.text

    def filled(self, number: int, seed: int | None) -> Member:
        """The checkpoint at a step; `k` behind `{step}` makes it thousands."""
        spec = self.text.replace("{step}", str(number)).replace("{seed}", str(seed))
        return Member(spec, number, number * (1000 if "{step}k" in self.text else 1), seed)

    def match(self, name: str) -> Member | None:
        """The checkpoint of this name, if it is one."""
        pieces = {"{step}": r"(?P<step>\d+)", "{seed}": r"(?P<seed>\d+)", "*": "[^/]*?"}  # a number has all its digits
        expression = re.sub(
            r"\\\{(step|seed)\\\}|\\\*", lambda found: pieces[found[0].replace("\\", "")], re.escape(re.sub(r"\*+", "*", self.text))
        )
        found = re.fullmatch(expression, name)
        if not found:
            return None
        made = self.filled(int(found["step"]), int(found["seed"]) if self.seeded else None)
        return Member(name, made.number, made.step, made.seed)
