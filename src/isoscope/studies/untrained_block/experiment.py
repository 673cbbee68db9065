"""The untrained block: add a common bias to its input, and measure its output.

"Anisotropy Is Inherent to Self-Attention" (Godey et al. 2024), section 4, as an experiment with every choice open.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from isoscope.core.errors import IsoscopeError
from isoscope.core.machine import check_room
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.core.user_input import MAX_BLOCKS, MAX_SEED, check_count, check_word
from isoscope.estimation.inference import Estimate, student
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import key_of
from isoscope.studies.untrained_block.block_probe import probe_network
from isoscope.studies.untrained_block.curves import HISTOGRAM, KIND, TRAINED
from isoscope.studies.untrained_block.networks import INITS, NORMS, PlainNetwork, Sizes, Subject, parse_variant

if TYPE_CHECKING:
    from isoscope.studies.untrained_block.architectures import Architecture

GRID = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0)
"""Bias norms: many small ones, and some around the crossing at √768 = 27.7."""
BYTES_PER_NUMBER = 4
"""The size of a weight, and of a coordinate."""
VERSION = 1
"""Increased when the meaning of a curve changes."""
SAME_NORM = 1e-4
"""Norms that differ by less than this share count as equal."""
CONSTANT_NORM = 0.01
"""If the output norm changes by less than this share over the whole grid, a norm sets it."""


@dataclass(frozen=True)
class Trial:
    """How an experiment is run, on any network."""

    sizes: Sizes = field(default_factory=Sizes)
    norms: tuple[float, ...] = GRID
    draws: int = 5
    seed: int = 0
    query_rows: int = 64

    def __post_init__(self) -> None:
        if not self.norms:
            raise IsoscopeError("--norms needs at least one bias norm, as in 0,1,5,30.")
        if bad := [x for x in self.norms if not (x >= 0 and math.isfinite(x))]:
            raise IsoscopeError(f"--norms must be lengths, 0 or above; got {bad[0]:g}.")
        check_count("draws", self.draws)
        check_count("query_rows", self.query_rows)
        check_count("seed", self.seed, least=0, most=MAX_SEED)


@dataclass(frozen=True)
class Network:
    """A stack of plain blocks: its initialisation, its norms, the parts it lacks, and the blocks after which it is measured."""

    init: str = "bert"
    norm: str = "post"
    variant: str = "full"
    depths: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        check_word("--init takes", self.init, INITS)
        check_word("--norm takes", self.norm, NORMS)
        if not self.depths or min(self.depths) < 1:
            raise IsoscopeError(f"--depth counts blocks, from 1 on; got {min(self.depths, default=0)}.")
        check_count("depth", max(self.depths), most=MAX_BLOCKS)
        parse_variant(self.variant)

    @property
    def name(self) -> str:
        """Its name in the table.

        >>> Network().name, Network("torch", "rms", "attention-only+no-residual").name
        ('block bert post-LN', 'block torch pre-RMSNorm, attention only, no residual')
        """
        parts = [word.replace("-", " ") for word in self.variant.split("+") if word != "full"]
        norm = "" if "no-norm" in self.variant else f" {NORMS[self.norm]}"
        depth = [f"{max(self.depths)} blocks"] if max(self.depths) > 1 else []
        return ", ".join([f"block {self.init}{norm}", *parts, *depth])

    def identity(self) -> dict[str, Any]:
        """Everything that determines it."""
        return {"block": VERSION, "init": self.init, "norm": self.norm, "variant": self.variant, "depths": list(self.depths)}

    def make_subject(self, sizes: Sizes) -> Subject:
        """Make the network, without weights yet; refuse it if memory cannot hold them."""
        inner = sizes.inner or 4 * sizes.d
        weights = sizes.vocabulary * sizes.d + max(self.depths) * (4 * sizes.d + 2 * inner) * sizes.d
        size = BYTES_PER_NUMBER * (weights + 2 * sizes.length * sizes.d)
        check_room(f"{self.name} of {sizes.d:,} dimensions", size, "ask for a smaller one")
        return PlainNetwork(sizes, self.init, self.norm, self.variant, max(self.depths))


def plan_networks(inits: list[str], norms: list[str], variants: list[str], depths: list[int]) -> list[Network]:
    """The networks of a grid that are worth comparing.

    These are every initialisation with every norm, at the least depth; the first initialisation and norm with every variant, at the least
    depth; and the first initialisation with every norm at the other depths, all of which one pass gives.

    >>> [network.name for network in plan_networks(["bert"], ["post", "pre"], ["full", "mlp-only"], [1])]
    ['block bert post-LN', 'block bert pre-LN', 'block bert post-LN, mlp only']
    """
    usual = "full" if "full" in variants else variants[0]
    least, rest = tuple(sorted(set(depths)))[:1], tuple(sorted(set(depths)))[1:]
    networks = [Network(init, norm, usual, least) for init in inits for norm in norms]
    networks += [Network(inits[0], norms[0], variant, least) for variant in variants if variant != usual]
    networks += [Network(inits[0], norm, usual, rest) for norm in norms if rest]
    return list(dict.fromkeys(networks))


def table_name(choice: Network | Architecture, trial: Trial) -> str:
    """The name of a network at these sizes in the table: with its width, if that is not BERT-base's."""
    d = trial.sizes.d
    return choice.name if d == Sizes.d or not isinstance(choice, Network) else f"{choice.name}, d = {d}"


def cell_identity(choice: Network | Architecture, trial: Trial) -> dict[str, Any]:
    """Everything that determines the curves."""
    return {"experiment": KIND, **choice.identity(), **asdict(trial), "shard": [0, 1]}


def run_experiment(run: Run, choice: Network | Architecture, trial: Trial, step: Callable[[], None] = lambda: None) -> bool:
    """Run the experiment and write it as a cell; False if the run holds it already. `step` is called after each bias norm."""
    # In the form in which it is read back from the run: tuples become lists there, and the key must not change.
    identity = json.loads(json.dumps(cell_identity(choice, trial)))
    key = key_of(identity)
    if run.cell(key) is not None:
        return False
    started = time.monotonic()
    columns = {"model": table_name(choice, trial), "revision": key[:12], "family": KIND, "stack": KIND, "kind": KIND, "policy": "all"}
    subject = choice.make_subject(trial.sizes)
    points, n = _measure_curves(choice, subject, trial, columns, step)
    series = make_table(points, SERIES_COLUMNS)
    s = trial.sizes
    spec = {"data": f"{s.batch} sequences of {s.length} embeddings", "draws": trial.draws, "cell": key, **choice.identity(), **asdict(s)}
    rows = make_table(_table_rows(series, columns, spec, n, subject.width), TABLE_COLUMNS)
    # Only the manifest gets the time, after the rows are made: the same experiment gives the same rows.
    spec["seconds"] = round(time.monotonic() - started, 1)
    run.write_cell(identity, columns, spec, rows, series)
    return True


def _measure_curves(
    choice: Network | Architecture, subject: Subject, trial: Trial, columns: dict[str, Any], step: Callable[[], None]
) -> tuple[list[dict[str, Any]], int]:
    """Every point of the series, and the number of vectors behind each. Only the curves of a draw are kept."""
    points: list[dict[str, Any]] = []
    for draw in range(trial.draws):
        # A seed per draw, independent of the number of draws: the first two of five are the same as the two of two.
        seed = int(np.random.SeedSequence([trial.seed, draw]).generate_state(1)[0])
        subject.draw(seed)
        # A generator of its own: the direction must not depend on how many numbers a network draws for its weights.
        direction = torch.randn(subject.width, generator=torch.Generator().manual_seed(seed + 1))
        direction /= direction.norm()
        for norm in trial.norms:
            probe = probe_network(subject, direction * norm, choice.depths, trial.query_rows)
            where = columns | {"seed": draw}
            points += [where | {"layer": layer, "name": name, "x": norm, "y": y} for (name, layer), y in probe.curves().items()]
            points += [
                where | {"layer": layer, "name": HISTOGRAM, "x": x, "y": y, "weight": norm}
                for layer, (middles, density) in probe.histograms().items()
                for x, y in zip(middles, density, strict=True)
            ]
            step()
    return points, probe.n


def fixed_point(norms: np.ndarray, enters: np.ndarray, leaves: np.ndarray) -> float:
    """The bias norm at which the output is as long as the input, interpolated between two points of the grid; NaN if there is none.

    >>> fixed_point(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0]), np.array([1.5, 1.5, 1.5]))
    1.5
    """
    gap = leaves - enters
    # Rounding must not hide a fixed point that lies exactly on the grid.
    gap = np.where(np.abs(gap) <= SAME_NORM * np.maximum(enters, leaves), 0.0, gap)
    for i in range(len(gap)):
        if gap[i] == 0:
            return float(norms[i])
        if i + 1 < len(gap) and gap[i] * gap[i + 1] < 0:
            share = gap[i] / (gap[i] - gap[i + 1])
            return float(norms[i] + share * (norms[i + 1] - norms[i]))
    return math.nan


def _table_rows(series: pd.DataFrame, columns: dict[str, Any], spec: dict[str, Any], n: int, d: int) -> list[dict[str, Any]]:
    rows = []
    plain_spec = json.dumps(spec, sort_keys=True, ensure_ascii=False)
    for depth in sorted(set(series["layer"].dropna().astype(int)) - {0}):
        for metric, (values, note) in numbers_at_depth(series, depth).items():
            # If some draws have no number, the mean of the others would be another quantity.
            mean = student(values) if np.isfinite(values).all() else Estimate(math.nan)
            text = json.dumps(spec | {"note": note}, sort_keys=True, ensure_ascii=False) if note else plain_spec
            where = columns | {"layer": depth, "metric": metric, "n": n, "d": d, "spec": text}
            rows.append(where | {"value": mean.value, "low": mean.low, "high": mean.high})
    return rows


def numbers_at_depth(series: pd.DataFrame, depth: int) -> dict[str, tuple[np.ndarray, str]]:
    """The numbers of one network at one depth: for each its value by draw, and a note."""

    def curve(name: str, layer: int) -> np.ndarray:
        points = series[series["name"].eq(name) & series["layer"].eq(layer)]
        return points.pivot_table(index="seed", columns="x", values="y").to_numpy(float)

    norms = np.sort(series.loc[series["name"].eq("block_mean_norm"), "x"].unique())
    numbers: dict[str, tuple[np.ndarray, str]] = {}
    length = curve("block_mean_norm", depth)
    for metric, name in (("norm_fixed_point", "block_mean_norm"), ("drift_fixed_point", "block_drift_norm")):
        enters, leaves = curve(name, 0), length if name == "block_mean_norm" else curve(name, depth)
        by_draw = np.array([fixed_point(norms, a, b) for a, b in zip(enters, leaves, strict=True)])
        numbers[metric] = by_draw, describe_crossing(norms, enters, leaves, by_draw, length)
    numbers["output_norm_change"] = np.ptp(length, axis=1) / length.mean(1), ""
    numbers["least_cosine_gain"] = (curve("block_cosine", depth) - curve("block_cosine", 0)).min(1), ""
    for name in ("query", "key"):
        cosines = curve(f"block_{name}_cosine", depth)
        if cosines.size:  # empty if the tap cannot follow the attention of this architecture
            numbers[f"{name}_cosine_unbiased"] = cosines[:, 0], f"at a bias of norm {norms[0]:g}"
    return numbers


def describe_crossing(norms: np.ndarray, enters: np.ndarray, leaves: np.ndarray, fixed: np.ndarray, length: np.ndarray) -> str:
    """Whether a crossing is a fixed point of the network or of its last norm, in words.

    `fixed` holds the fixed point of each draw, `length` the output's mean norm by draw and bias norm.
    """
    crossed = int((~np.isnan(fixed)).sum())
    reach = f"N = {norms[0]:g} to {norms[-1]:g}"
    if crossed < len(fixed):
        gap = leaves / np.maximum(enters, 1e-30) - 1  # without a bias the mean of the input may be 0
        crossing = f"now longer, now shorter ({crossed} of {len(fixed)} draws cross)"
        side = "longer" if (gap > 0).all() else "shorter" if (gap < 0).all() else crossing
        return f"no fixed point from {reach}: the output is {side} than the input, at the end by {100 * gap[:, -1].mean():+.2g} %"
    crossings = np.array([np.interp(at, norms, curve) for at, curve in zip(fixed, leaves, strict=True)])
    if float((np.ptp(length, axis=1) / length.mean(1)).mean()) < CONSTANT_NORM and crossings.mean() > (1 - CONSTANT_NORM) * length.mean():
        grows = "" if leaves is length else ", and its mean grows towards that"
        return f"not a property of the block: its last norm makes every output {length.mean():.2f} long for {reach}{grows}"
    low, high = leaves.mean(0).min(), leaves.mean(0).max()
    return f"a crossing: over {reach} the output's length runs from {low:.3g} to {high:.3g}"


def write_trained_norms(run: Run, table: pd.DataFrame, source: str) -> None:
    """Write the mean norms of trained models' layers into the run, to compare the fixed point with."""
    rows = table[table["metric"].eq("mean_norm") & table["kind"].eq("hidden") & table["policy"].eq("all") & table["value"].notna()]
    if rows.empty:
        raise IsoscopeError(f"{source} holds no mean_norm of hidden layers; --trained takes a model, or a run that isoscope measure made.")
    for (model, revision), norms in rows.groupby(["model", "revision"], sort=False):
        identity = {"experiment": TRAINED, "model": model, "revision": revision, "norms": norms["value"].tolist(), "shard": [0, 1]}
        renamed = norms.assign(kind=KIND, family=KIND, metric=TRAINED).astype(TABLE_COLUMNS)
        run.write_cell(identity, {"model": model, "revision": revision}, {}, renamed)
