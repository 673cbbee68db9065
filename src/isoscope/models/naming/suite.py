"""A suite: the checkpoints of one training by seed and step, in a folder, under a pattern of paths, or on the hub."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.user_input import NumberSelection, expand_home
from isoscope.models.naming.checkpoint_names import Member, Pattern, find_members, match_paths, pattern_name

EMBEDDED = "embedded"
Place = tuple[int | None, int]
"""Seed and step."""


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint. `spec` is the name that `resolve_model` takes; `seed` is None if the training is the only one."""

    spec: str
    step: int
    seed: int | None


@dataclass(frozen=True)
class Suite:
    """Checkpoints in the order of seed and step, and the (seed, step) of those that were asked for and do not exist."""

    name: str
    checkpoints: tuple[Checkpoint, ...]
    absent: tuple[Place, ...] = ()

    def describe_checkpoint(self, seed: int | None, step: int) -> str:
        """A seed and a step of the suite in words.

        >>> Suite("bert", ()).describe_checkpoint(1, 20)
        'bert, seed 1, step 20'
        """
        return f"{self.describe_seed(seed)}, step {step}"

    def describe_seed(self, seed: int | None) -> str:
        """A seed of the suite in words."""
        return self.name if seed is None else f"{self.name}, seed {seed}"


def open_suites(specs: list[str], steps: str | None = None, seeds: str | None = None) -> list[Suite]:
    """Open several suites; `embedded` stands for all that come with isoscope. No two may have the same name."""
    words = [word for spec in specs for word in (_embedded_names() if spec == EMBEDDED else [spec])]
    if not words:
        raise IsoscopeError(
            "Name at least one suite: a folder of checkpoints, or a pattern such as EleutherAI/pythia-70m@step{step}."
            if not specs
            else "No suite comes with this copy of isoscope; name a folder of checkpoints, or a pattern with {step}."
        )
    suites = [open_suite(word, steps, seeds) for word in words]
    repeated = [name for name, count in Counter(suite.name for suite in suites).items() if count > 1]
    if repeated:
        raise IsoscopeError(f"Two suites are called {repeated[0]}; sweep each into a run of its own with --out.")
    return suites


def open_suite(spec: str, steps: str | None = None, seeds: str | None = None) -> Suite:
    """Find the checkpoints of a suite.

    Args:
        spec: a folder of checkpoints, a pattern of paths, hub repositories or hub revisions with `{step}` and perhaps `{seed}`, or
            `embedded:NAME`.
        steps: which steps, as they are written in the names: `0,20,40-200:20`; by default all that a folder or the hub lists.
        seeds: which seeds, likewise.
    """
    chosen_steps = NumberSelection.parse(steps, "--steps") if steps is not None else None
    chosen_seeds = NumberSelection.parse(seeds, "--seeds") if seeds is not None else None
    name, members = _find_members(spec, chosen_steps, chosen_seeds)
    if chosen_seeds is not None and all(member.seed is None for member in members):
        raise _no_seeds(spec)
    chosen = [m for m in members if (chosen_steps is None or m.number in chosen_steps) and (chosen_seeds is None or m.seed in chosen_seeds)]
    if not chosen:
        existing = ", ".join(str(number) for number in sorted({member.number for member in members})[:8])
        raise IsoscopeError(f"{spec} has none of the checkpoints that --steps and --seeds ask for; it has the steps {existing}.")
    _refuse_repeated_steps(spec, chosen)
    checkpoints = [Checkpoint(member.spec, member.step, member.seed) for member in chosen]
    checkpoints.sort(key=lambda checkpoint: _order((checkpoint.seed, checkpoint.step)))
    return Suite(name, tuple(checkpoints), _absent_places(members, chosen, chosen_steps, chosen_seeds))


def _find_members(spec: str, steps: NumberSelection | None, seeds: NumberSelection | None) -> tuple[str, list[Member]]:
    """The suite's name and every checkpoint that exists, or that the hub may have."""
    if spec.partition(":")[0] == EMBEDDED:
        return _members_in_folder(_embedded_folder(spec.partition(":")[2]))
    path = expand_home(spec)
    if path.is_dir():
        return _members_in_folder(path)
    if "{" not in spec:
        raise IsoscopeError(
            f"{spec} is neither a folder of checkpoints nor a pattern with {{step}}, as EleutherAI/pythia-70m@step{{step}} is."
        )
    pattern = Pattern(spec)
    if local := match_paths(pattern):
        return pattern_name(pattern), local
    if spec.startswith((".", "/", "~")):
        raise IsoscopeError(f"There is no folder or file that {spec} stands for.")
    if steps is None or pattern.has_wildcard or (pattern.has_seeds and seeds is None):
        from isoscope.models.naming.hub_suite import list_checkpoints

        return pattern.name, list_checkpoints(pattern, seeds.all_numbers() if seeds is not None else None)
    if seeds is not None and not pattern.has_seeds:
        raise _no_seeds(spec)
    # Steps and seeds are all given: the hub need not be asked what it lists.
    every_seed = seeds.all_numbers() if seeds is not None else [None]
    return pattern.name, [pattern.fill(number, seed) for seed in every_seed for number in steps.all_numbers()]


def _no_seeds(spec: str) -> IsoscopeError:
    return IsoscopeError(f"{spec} has no seeds to choose from; leave --seeds out, or put {{seed}} into the pattern.")


def _members_in_folder(folder: Path) -> tuple[str, list[Member]]:
    members = list(find_members(folder))
    if not members:
        raise IsoscopeError(
            f"{folder} holds no checkpoints: folders such as checkpoint-500, step-500 or seed-0/step-500, or files such as step_500.pt "
            "or epoch=1-step=500.ckpt next to config.json."
        )
    return folder.resolve().name, members


def _absent_places(
    members: list[Member], chosen: list[Member], steps: NumberSelection | None, seeds: NumberSelection | None
) -> tuple[Place, ...]:
    """Places that were named one by one and do not exist: steps of the seeds that exist, and seeds that do not."""
    existing = {(member.seed, member.number) for member in chosen}
    existing_seeds = {seed for seed, _ in existing}
    # `step_{step}k` is written in thousands. Absent places are reported in steps, like those that exist.
    times = 1000 if any(member.step > member.number for member in members) else 1
    named_steps, named_seeds = (() if selection is None else selection.numbers for selection in (steps, seeds))
    absent: set[Place] = {(seed, number) for seed in existing_seeds for number in named_steps if (seed, number) not in existing}
    absent |= {(seed, number) for seed in named_seeds if seed not in existing_seeds for _, number in existing}
    return tuple(sorted(((seed, number * times) for seed, number in absent), key=_order))


def _order(place: Place) -> tuple[int, int]:
    return -1 if place[0] is None else place[0], place[1]


def _refuse_repeated_steps(spec: str, members: list[Member]) -> None:
    first: dict[Place, str] = {}
    for member in members:
        other = first.setdefault((member.seed, member.step), member.spec)
        if other != member.spec:
            raise IsoscopeError(
                f"{other} and {member.spec} are both step {member.step} of {spec}; keep one, or name a folder that holds one."
            )


def _embedded_suites() -> Path:
    return Path(str(files("isoscope"))) / "training" / "suites"


def _embedded_names() -> list[str]:
    """The suites that come with isoscope."""
    folders = (path for path in sorted(_embedded_suites().glob("*")) if path.is_dir() and not path.name.startswith(("_", ".")))
    return [f"{EMBEDDED}:{path.name}" for path in folders]


def _embedded_folder(name: str) -> Path:
    known = [word.partition(":")[2] for word in _embedded_names()]
    if name in known:
        return _embedded_suites() / name
    if not known:
        raise IsoscopeError("No suite comes with this copy of isoscope; name a folder of checkpoints, or a pattern with {step}.")
    if not name and len(known) == 1:
        return _embedded_suites() / known[0]
    raise IsoscopeError(f"There is no embedded suite {name!r}{nearest(name, known) or '; there are ' + ', '.join(known) + '.'}")
