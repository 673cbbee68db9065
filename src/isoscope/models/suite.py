"""A suite: the checkpoints of one training, by seed and step, wherever they are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.names import expand_home
from isoscope.models.suites.asked import Asked
from isoscope.models.suites.folder import members_in, members_of, name_of
from isoscope.models.suites.names import Member, Pattern

EMBEDDED = "embedded"


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint; `spec` is what `resolve` takes, `seed` is missing where the training is the only one."""

    spec: str
    step: int
    seed: int | None


@dataclass(frozen=True)
class Suite:
    """Checkpoints in the order of seed and step, and (seed, step) of those that were asked for and are not there."""

    name: str
    checkpoints: tuple[Checkpoint, ...]
    absent: tuple[tuple[int | None, int], ...] = ()

    def at(self, seed: int | None, step: int) -> str:
        """A place of the suite in words.

        >>> Suite("bert", ()).at(1, 20)
        'bert, seed 1, step 20'
        """
        return f"{self.of(seed)}, step {step}"

    def of(self, seed: int | None) -> str:
        """A seed of the suite in words."""
        return self.name if seed is None else f"{self.name}, seed {seed}"


def open_suites(specs: list[str], steps: str | None = None, seeds: str | None = None) -> list[Suite]:
    """Several suites; `embedded` is all that come with isoscope. No two may be called the same."""
    words = [word for spec in specs for word in (_embedded_names() if spec == EMBEDDED else [spec])]
    if not words:
        raise IsoscopeError(
            "Name at least one suite: a folder of checkpoints, or a pattern such as EleutherAI/pythia-70m@step{step}."
            if not specs
            else "No suite comes with this copy of isoscope; name a folder of checkpoints, or a pattern with {step}."
        )
    found = [open_suite(word, steps, seeds) for word in words]
    twice = [name for name, count in Counter(suite.name for suite in found).items() if count > 1]
    if twice:
        raise IsoscopeError(f"Two suites are called {twice[0]}; sweep each into a run of its own with --out.")
    return found


def open_suite(spec: str, steps: str | None = None, seeds: str | None = None) -> Suite:
    """Find the checkpoints of a suite.

    Args:
        spec: a folder of checkpoints, a pattern of paths, hub repositories or hub revisions with `{step}` and perhaps `{seed}`, or
            `embedded:NAME`.
        steps: which steps, as they stand in the names: `0,20,40-200:20`; by default all that a folder or the hub lists.
        seeds: which seeds, likewise.
    """
    asked_steps = Asked.parse(steps, "--steps") if steps is not None else None
    asked_seeds = Asked.parse(seeds, "--seeds") if seeds is not None else None
    name, members = _found(spec, asked_steps, asked_seeds)
    if asked_seeds is not None and all(member.seed is None for member in members):
        raise IsoscopeError(f"{spec} has no seeds to choose from; leave --seeds out, or put {{seed}} into the pattern.")
    chosen = [m for m in members if (asked_steps is None or m.number in asked_steps) and (asked_seeds is None or m.seed in asked_seeds)]
    if not chosen:
        there = ", ".join(str(number) for number in sorted({member.number for member in members})[:8])
        raise IsoscopeError(f"{spec} has none of the checkpoints that --steps and --seeds ask for; it has the steps {there}.")
    _once(spec, chosen)
    checkpoints = sorted((Checkpoint(m.spec, m.step, m.seed) for m in chosen), key=lambda one: _order((one.seed, one.step)))
    return Suite(name, tuple(checkpoints), _absent(members, chosen, asked_steps, asked_seeds))


def _found(spec: str, steps: Asked | None, seeds: Asked | None) -> tuple[str, list[Member]]:
    """The suite's name and every checkpoint that is there, or that the hub may have."""
    if spec.partition(":")[0] == EMBEDDED:
        return _in_folder(_embedded(spec.partition(":")[2]))
    path = expand_home(spec)
    if path.is_dir():
        return _in_folder(path)
    if "{" not in spec:
        raise IsoscopeError(
            f"{spec} is neither a folder of checkpoints nor a pattern with {{step}}, as EleutherAI/pythia-70m@step{{step}} is."
        )
    pattern = Pattern(spec)
    if local := members_of(pattern):
        return name_of(pattern), local
    if spec.startswith((".", "/", "~")):
        raise IsoscopeError(f"There is no folder or file that {spec} stands for.")
    if steps is None or pattern.open or (pattern.seeded and seeds is None):
        from isoscope.models.suites.hub import listed

        return pattern.name, listed(pattern, seeds.every() if seeds is not None else None)
    if seeds is not None and not pattern.seeded:
        raise IsoscopeError(f"{spec} has no seeds to choose from; leave --seeds out, or put {{seed}} into the pattern.")
    every = seeds.every() if seeds is not None else [None]
    return pattern.name, [pattern.filled(number, seed) for seed in every for number in steps.every()]


def _in_folder(folder: Path) -> tuple[str, list[Member]]:
    found = list(members_in(folder))
    if not found:
        raise IsoscopeError(
            f"{folder} holds no checkpoints: folders such as checkpoint-500, step-500 or seed-0/step-500, or files such as step_500.pt "
            "or epoch=1-step=500.ckpt beside config.json."
        )
    return folder.resolve().name, found


def _absent(members: list[Member], chosen: list[Member], steps: Asked | None, seeds: Asked | None) -> tuple[tuple[int | None, int], ...]:
    """What was named one by one and is not there: steps of the seeds that are there, and seeds that are not."""
    there = {(member.seed, member.number) for member in chosen}
    times = 1000 if any(member.step > member.number for member in members) else 1
    asked = steps.numbers if steps is not None else ()
    found: set[tuple[int | None, int]] = {(seed, number) for seed, _ in there for number in asked if (seed, number) not in there}
    lost = [seed for seed in (seeds.numbers if seeds is not None else ()) if seed not in {seed for seed, _ in there}]
    found |= {(seed, number) for seed in lost for _, number in there}
    return tuple(sorted(((seed, number * times) for seed, number in found), key=_order))


def _order(place: tuple[int | None, int]) -> tuple[int, int]:
    return -1 if place[0] is None else place[0], place[1]


def _once(spec: str, members: list[Member]) -> None:
    seen: dict[tuple[int | None, int], str] = {}
    for member in members:
        other = seen.setdefault((member.seed, member.step), member.spec)
        if other != member.spec:
            raise IsoscopeError(
                f"{other} and {member.spec} are both step {member.step} of {spec}; keep one, or name a folder that holds one."
            )


def _suites() -> Path:
    return Path(str(files("isoscope"))) / "training" / "suites"


def _embedded_names() -> list[str]:
    """The suites that come with isoscope."""
    return [f"{EMBEDDED}:{path.name}" for path in sorted(_suites().glob("*")) if path.is_dir() and not path.name.startswith(("_", "."))]


def _embedded(name: str) -> Path:
    known = [word.partition(":")[2] for word in _embedded_names()]
    if name in known:
        return _suites() / name
    if not known:
        raise IsoscopeError("No suite comes with this copy of isoscope; name a folder of checkpoints, or a pattern with {step}.")
    if not name and len(known) == 1:
        return _suites() / known[0]
    raise IsoscopeError(f"There is no embedded suite {name!r}{nearest(name, known) or '; there are ' + ', '.join(known) + '.'}")
