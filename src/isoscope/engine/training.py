"""`isoscope train`: the trainings of a suite one after the other, with a bar, and a picture of their losses."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from isoscope.core.counts import SEED, check_count
from isoscope.core.errors import IsoscopeError
from isoscope.engine.measure import limited_threads
from isoscope.engine.progress import Progress
from isoscope.models.suites.selection import NumberSelection
from isoscope.sources import open_source
from isoscope.training.recipe import grid, recipe


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
    """Train the seeds of a recipe that are not finished; the suite's folder."""
    chosen, wanted = recipe(name).with_(**choices), NumberSelection.parse(seeds, "--seeds").all_numbers()
    chosen.check_room()
    check_count("seeds", max(wanted), least=0, most=SEED)
    at = NumberSelection.parse(checkpoints, "--checkpoints").all_numbers() if checkpoints else grid(chosen.steps)
    if at[-1] > chosen.steps:
        raise IsoscopeError(f"--checkpoints asks for step {at[-1]}, and the training ends at {chosen.steps}; raise --steps.")
    source = open_source(data, column, chosen.modality)
    if source.modality != chosen.modality:
        raise IsoscopeError(
            f"{name} is trained on {chosen.modality}, and {data} holds {source.modality}; give --data with {chosen.modality}."
        )
    suite, progress = Path(out), Progress(quiet=quiet)
    from isoscope.training.checkpoints import Checkpoints
    from isoscope.training.data import data_for
    from isoscope.training.loop import DTYPES, train

    if dtype not in DTYPES:
        raise IsoscopeError(f"--dtype takes {' or '.join(DTYPES)}; got {dtype!r}.")
    made = chosen.identity() | {"data": source.fingerprint, "checkpoints": at, "dtype": dtype}
    with limited_threads(threads):
        with progress.bar(f"{name}: reading {source.name}", None, "items") as bar:
            read = data_for(chosen, source, bar.advance)
        for seed in wanted:
            Checkpoints(suite, seed).claim(made)
            began = time.monotonic()
            with progress.bar(f"{name}, seed {seed}", chosen.steps, "steps") as bar:
                here = [0]

                def step(done: int, loss: float, bar: Any = bar, here: list[int] = here) -> None:
                    bar.advance(done - here[0], rate=f"loss {loss:.3f}")
                    here[0] = done

                losses = train(chosen, read, suite, seed, at, stop=stop, dtype=dtype, progress=step)
            if losses:
                progress.note(f"{name}, seed {seed}: {_told(losses)}, {time.monotonic() - began:.0f} s")
            else:
                progress.note(f"{name}, seed {seed}: already trained.")
    return suite


def _told(losses: list[tuple[int, float, float]]) -> str:
    """The course of a loss in a line."""
    step, loss, held = losses[-1]
    course = sparkline([loss for _, loss, _ in losses])
    return f"{course} loss {loss:.3f} after {step:,} steps" + (f", {held:.3f} on what was held out" if held == held else "")


def sparkline(values: list[float], width: int = 24) -> str:
    """A curve in one line of text.

    >>> sparkline([4, 3, 2, 1, 1, 1, 1, 1], width=4)
    '█▂▁▁'
    """
    parts = [values[i * len(values) // width : max((i + 1) * len(values) // width, i * len(values) // width + 1)] for i in range(width)]
    means = [sum(part) / len(part) for part in parts if part]
    low, high = min(means), max(means)
    return "".join("▁▂▃▄▅▆▇█"[round(7 * (mean - low) / ((high - low) or 1))] for mean in means)
