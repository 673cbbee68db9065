"""`isoscope train`: the trainings of a suite, one after the other, with a progress bar and a curve of their losses."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.core.progress import Progress
from isoscope.core.user_input import MAX_SEED, NumberSelection, check_count
from isoscope.sources import open_source
from isoscope.training.recipe import checkpoint_steps, find_recipe
from isoscope.training.threads import limit_threads


def run_training(
    name: str,
    out: str | Path,
    data: str = "embedded",
    *,
    column: str | None = None,
    seeds: str = "0",
    checkpoints: str | None = None,
    dtype: str = "float32",
    threads: int | None = None,
    stop: int | None = None,
    quiet: bool = False,
    **choices: Any,
) -> Path:
    """Train the seeds of a recipe that are not finished, and return the folder of the suite."""
    recipe, wanted = find_recipe(name).with_(**choices), NumberSelection.parse(seeds, "--seeds").all_numbers()
    recipe.check_room()
    check_count("seeds", max(wanted), least=0, most=MAX_SEED)
    steps = NumberSelection.parse(checkpoints, "--checkpoints").all_numbers() if checkpoints else checkpoint_steps(recipe.steps)
    if steps[-1] > recipe.steps:
        raise IsoscopeError(f"--checkpoints asks for step {steps[-1]}, and the training ends at {recipe.steps}; raise --steps.")
    source = open_source(data, column, recipe.modality)
    if source.modality != recipe.modality:
        raise IsoscopeError(f"{name} needs {recipe.modality}, and {data} holds {source.modality}; give --data with {recipe.modality}.")
    # torch is imported only after the checks, so that a mistake is reported at once.
    from isoscope.training.checkpoints import Checkpoints
    from isoscope.training.data import load_data
    from isoscope.training.loop import DTYPES, train

    if dtype not in DTYPES:
        raise IsoscopeError(f"--dtype takes {' or '.join(DTYPES)}; got {dtype!r}.")
    suite, progress = Path(out), Progress(quiet=quiet)
    identity = recipe.identity() | {"data": source.fingerprint, "checkpoints": steps, "dtype": dtype}
    with limit_threads(threads):
        with progress.bar(f"{name}: reading {source.name}", None, "items") as bar:
            items = load_data(recipe, source, bar.advance)
        for seed in wanted:
            Checkpoints(suite, seed).claim(identity)
            began = time.monotonic()
            with progress.bar(f"{name}, seed {seed}", recipe.steps, "steps") as bar:
                losses = train(recipe, items, suite, seed, steps, stop=stop, dtype=dtype, progress=_follow_steps(bar))
            if losses:
                progress.note(f"{name}, seed {seed}: {_describe_losses(losses)}, {time.monotonic() - began:.0f} s")
            else:
                progress.note(f"{name}, seed {seed}: already trained.")
    return suite


def _follow_steps(bar: Any) -> Any:
    """A function that moves a bar to a step. A resumed training begins with a jump."""
    shown = 0

    def move(step: int, loss: float) -> None:
        nonlocal shown
        bar.advance(step - shown, rate=f"loss {loss:.3f}")
        shown = step

    return move


def _describe_losses(losses: list[Any]) -> str:
    """The curve of the losses and the last of them, in one line."""
    step, loss, held_out = losses[-1]
    curve = sparkline([entry.batch for entry in losses])
    return f"{curve} loss {loss:.3f} after {step:,} steps" + (f", {held_out:.3f} on held-out items" if held_out == held_out else "")


def sparkline(values: list[float], width: int = 24) -> str:
    """A curve in one line of text.

    >>> sparkline([4, 3, 2, 1, 1, 1, 1, 1], width=4)
    '█▂▁▁'
    """
    n = len(values)
    parts = [values[i * n // width : max((i + 1) * n // width, i * n // width + 1)] for i in range(width)]
    means = [sum(part) / len(part) for part in parts if part]
    low, high = min(means), max(means)
    return "".join("▁▂▃▄▅▆▇█"[round(7 * (mean - low) / ((high - low) or 1))] for mean in means)
