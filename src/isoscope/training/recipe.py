"""Recipes: what is trained, on what, and for how long, with every choice that a user may change."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.machine import check_room
from isoscope.core.user_input import MAX_BLOCKS, check_count, check_word

OBJECTIVES = ("next", "masked", "classes")
LEVELS = ("characters", "subwords")
NORMS = ("pre", "post")
WEIGHT_BYTES = 4
COPIES = 4
"""Weights, their gradients and the optimizer's two moments of them."""


@dataclass(frozen=True)
class Recipe:
    """A training. The three recipes of text are twins: they differ in mask and objective, and share first weights and windows of text."""

    name: str
    about: str
    modality: str
    objective: str
    causal: bool = False
    norm: str = "pre"
    rotary: bool = True
    level: str = "characters"
    width: int = 96
    layers: int = 6
    heads: int = 3
    expansion: int = 2
    length: int = 128
    batch: int = 16
    steps: int = 800
    rate: float = 2e-3
    warmup: int = 50
    decay: float = 0.01
    masked: float = 0.15

    def __post_init__(self) -> None:
        for name, allowed in (("norm", NORMS), ("level", LEVELS), ("objective", OBJECTIVES)):
            check_word(f"--{name} takes", getattr(self, name), allowed, joined=" or ")
        for name in ("width", "heads", "expansion", "batch", "steps"):
            check_count(name, getattr(self, name))
        check_count("length", self.length, least=2)
        check_count("layers", self.layers, most=MAX_BLOCKS)
        if self.width % self.heads:
            raise IsoscopeError(f"--width must be a multiple of --heads; got {self.width} and {self.heads}.")
        if self.rotary and self.width // self.heads % 2:
            raise IsoscopeError(f"A head needs an even number of dimensions, which are turned in pairs; got {self.width // self.heads}.")
        if not self.rate > 0:
            raise IsoscopeError(f"--rate must be above 0; got {self.rate:g}.")
        if self.objective == "next" and not self.causal:
            raise IsoscopeError("Predicting what comes next needs a causal mask: a network that sees both sides would see the answer.")

    def check_room(self) -> None:
        """Refuse a training whose weights and states alone exceed the memory."""
        # A lower bound: four attention matrices and two of the MLP per block, and one state per block for the backward pass.
        weights = self.layers * (4 + 2 * self.expansion) * self.width**2
        states = self.batch * self.length * self.layers * self.width
        check_room(f"A network of {self.width:,} dimensions", WEIGHT_BYTES * (COPIES * weights + states), "ask for a smaller one")

    def identity(self) -> dict[str, Any]:
        """The choices that determine the weights, together with data and seed."""
        return {name: value for name, value in asdict(self).items() if name != "about"}

    def with_(self, **changes: Any) -> Recipe:
        """A copy with some choices changed; None leaves one unchanged."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("causal-text", "a decoder: causal mask, the next symbol", "text", "next", causal=True),
        Recipe("masked-text", "an encoder: sees both sides, hidden symbols", "text", "masked"),
        Recipe("causal-masked-text", "their twin: causal mask, hidden symbols", "text", "masked", causal=True),
        Recipe("images", "a vision Transformer: the class, or photograph, of a 32 × 32 crop", "images", "classes", rotary=False, length=64),
        Recipe("speech", "a speech encoder: hidden frames of 10 ms", "speech", "masked", length=128),
    )
}


def find_recipe(name: str) -> Recipe:
    """The recipe of this name.

    >>> find_recipe("causal-text").causal
    True
    """
    if name not in RECIPES:
        raise IsoscopeError(
            f"There is no recipe called {name!r}{nearest(name, list(RECIPES)) or '; there are ' + ', '.join(RECIPES) + '.'}"
        )
    return RECIPES[name]


def checkpoint_steps(steps: int) -> list[int]:
    """The steps at which a checkpoint is written by default: 0, 1, 2, 5, 10, … and the last.

    >>> checkpoint_steps(60)
    [0, 1, 2, 5, 10, 20, 50, 60]
    """
    grid = [0, *(digit * 10**power for power in range(9) for digit in (1, 2, 5))]
    return [step for step in grid if step < steps] + [steps]
