"""The untrained block: a common bias is added to what enters it, and what leaves it is measured.

"Anisotropy Is Inherent to Self-Attention" (Godey et al. 2024), section 4, as an experiment with every choice open.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
import torch

from isoscope.core.block import HISTOGRAM, KIND, TRAINED
from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.memory import check_room
from isoscope.core.option_limits import MAX_BLOCKS, MAX_SEED, check_count
from isoscope.core.student import margin
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, tidy
from isoscope.lab.networks import INITS, NORMS, Plain, Sizes, Subject, parse_variant
from isoscope.lab.sight import look
from isoscope.store.manifest import key_of
from isoscope.store.run import Run

GRID = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0)
"""Bias norms: the regime of small ones, and the crossing at √768 = 27.7."""
BYTES = 4
"""Of a weight, and of a coordinate."""
VERSION = 1
"""Goes up when a curve's meaning changes."""
EQUAL = 1e-4
"""Norms that differ by less than this part are equal."""
SET = 0.01
"""An output norm that changes by less than this part over the whole grid is set by a norm."""


@dataclass(frozen=True)
class Trial:
    """How an experiment is done, whatever it is done on."""

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
    """A stack of plain blocks: how it is initialised, where its norms are, what is left out, and after how many blocks it is measured."""

    init: str = "bert"
    norm: str = "post"
    variant: str = "full"
    depths: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        if self.init not in INITS:
            raise IsoscopeError(f"--init takes {', '.join(INITS)}; got {self.init!r}{nearest(self.init, list(INITS)) or '.'}")
        if self.norm not in NORMS:
            raise IsoscopeError(f"--norm takes {', '.join(NORMS)}; got {self.norm!r}{nearest(self.norm, list(NORMS)) or '.'}")
        if not self.depths or min(self.depths) < 1:
            raise IsoscopeError(f"--depth counts blocks, from 1 on; got {min(self.depths, default=0)}.")
        check_count("depth", max(self.depths), most=MAX_BLOCKS)
        parse_variant(self.variant)

    @property
    def name(self) -> str:
        """What the table calls it.

        >>> Network().name, Network("torch", "rms", "attention-only+no-residual").name
        ('block bert post-LN', 'block torch pre-RMSNorm, attention only, no residual')
        """
        left = [word.replace("-", " ") for word in self.variant.split("+") if word != "full"]
        where = "" if "no-norm" in self.variant else f" {NORMS[self.norm]}"
        deep = [f"{max(self.depths)} blocks"] if max(self.depths) > 1 else []
        return ", ".join([f"block {self.init}{where}", *left, *deep])

    def identity(self) -> dict[str, Any]:
        """What determines it."""
        return {"block": VERSION, "init": self.init, "norm": self.norm, "variant": self.variant, "depths": list(self.depths)}

    def subject(self, sizes: Sizes) -> Subject:
        """The network itself, without weights yet; refused where they would have no room."""
        inner = sizes.inner or 4 * sizes.d
        weights = sizes.vocabulary * sizes.d + max(self.depths) * (4 * sizes.d + 2 * inner) * sizes.d
        check_room(f"{self.name} of {sizes.d:,} dimensions", BYTES * (weights + 2 * sizes.length * sizes.d), "ask for a smaller one")
        return Plain(sizes, self.init, self.norm, self.variant, max(self.depths))


def plan(inits: list[str], norms: list[str], variants: list[str], depths: list[int]) -> list[Network]:
    """The networks of a grid that can tell something apart.

    Every initialisation with every norm, whole and at the least depth; the first of them with every norm at the other depths, which one
    pass gives; the first of both with every variant at the least depth.

    >>> [network.name for network in plan(["bert"], ["post", "pre"], ["full", "mlp-only"], [1])]
    ['block bert post-LN', 'block bert pre-LN', 'block bert post-LN, mlp only']
    """
    whole = "full" if "full" in variants else variants[0]
    deep = tuple(sorted(set(depths)))
    found = [Network(init, norm, whole, deep[:1]) for init in inits for norm in norms]
    found += [Network(inits[0], norms[0], variant, deep[:1]) for variant in variants if variant != whole]
    found += [Network(inits[0], norm, whole, deep[1:]) for norm in norms if deep[1:]]
    return list(dict.fromkeys(found))


class Thing(Protocol):
    """What can be tried: a `Network` or an `Architecture`."""

    @property
    def name(self) -> str:
        """What the table calls it."""

    @property
    def depths(self) -> tuple[int, ...]:
        """After how many blocks it is measured."""

    def identity(self) -> dict[str, Any]:
        """What determines it."""

    def subject(self, sizes: Sizes) -> Subject:
        """The network itself."""


def called(thing: Thing, trial: Trial) -> str:
    """What the table calls a network at these sizes: its width is said where it is not BERT-base's."""
    d = trial.sizes.d
    return thing.name if d == Sizes.d or not isinstance(thing, Network) else f"{thing.name}, d = {d}"


def cell_identity(thing: Thing, trial: Trial) -> dict[str, Any]:
    """Everything that determines the curves."""
    return {"experiment": KIND, **thing.identity(), **asdict(trial), "shard": [0, 1]}


def carry_out(run: Run, thing: Thing, trial: Trial, step: Callable[[], None] = lambda: None) -> bool:
    """Do the experiment and write it as a cell of the run; False where the run holds it already. `step` is called after each bias norm."""
    identity = json.loads(json.dumps(cell_identity(thing, trial)))
    key = key_of(identity)
    if run.cell(key) is not None:
        return False
    started = time.monotonic()
    columns = {"model": called(thing, trial), "revision": key[:12], "family": KIND, "stack": KIND, "kind": KIND, "policy": "all"}
    subject = thing.subject(trial.sizes)
    points, n = _points(thing, subject, trial, columns, step)
    series = tidy(points, SERIES_COLUMNS)
    s = trial.sizes
    spec = {"data": f"{s.batch} sequences of {s.length} embeddings", "draws": trial.draws, "cell": key, **thing.identity(), **asdict(s)}
    rows = tidy(_numbers(series, columns, spec, n, subject.width), TABLE_COLUMNS)
    spec["seconds"] = round(time.monotonic() - started, 1)
    run.write_cell(identity, columns, spec, rows, series)
    return True


def _points(
    thing: Thing, subject: Subject, trial: Trial, columns: dict[str, Any], step: Callable[[], None]
) -> tuple[list[dict[str, Any]], int]:
    """Every point of the series, and how many vectors each is over. Nothing of a draw is kept but its curves."""
    points: list[dict[str, Any]] = []
    for draw in range(trial.draws):
        seed = int(np.random.SeedSequence([trial.seed, draw]).generate_state(1)[0])
        subject.draw(seed)
        direction = torch.randn(subject.width, generator=torch.Generator().manual_seed(seed + 1))
        direction /= direction.norm()
        for norm in trial.norms:
            sight = look(subject, direction * norm, thing.depths, trial.query_rows)
            where = columns | {"seed": draw}
            points += [where | {"layer": layer, "name": name, "x": norm, "y": y} for (name, layer), y in sight.curves().items()]
            points += [
                where | {"layer": layer, "name": HISTOGRAM, "x": x, "y": y, "weight": norm}
                for layer, (middles, density) in sight.histograms().items()
                for x, y in zip(middles, density, strict=True)
            ]
            step()
    return points, sight.n


def fixed_point(norms: np.ndarray, enters: np.ndarray, leaves: np.ndarray) -> float:
    """The bias norm at which what leaves is as long as what enters, on the line between two points of the grid; NaN where it never is.

    >>> fixed_point(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0]), np.array([1.5, 1.5, 1.5]))
    1.5
    """
    gap = leaves - enters
    gap = np.where(np.abs(gap) <= EQUAL * np.maximum(enters, leaves), 0.0, gap)
    for i in range(len(gap)):
        if gap[i] == 0:
            return float(norms[i])
        if i + 1 < len(gap) and gap[i] * gap[i + 1] < 0:
            part = gap[i] / (gap[i] - gap[i + 1])
            return float(norms[i] + part * (norms[i + 1] - norms[i]))
    return math.nan


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """The mean over draws and Student's 95 % interval of it; no interval of a single draw.

    >>> [round(x, 3) for x in interval(np.array([1.0, 2.0, 3.0]))]
    [2.0, -0.484, 4.484]
    """
    n, mean = len(values), float(values.mean()) if len(values) else math.nan
    half = margin(float(values.std(ddof=1)) / math.sqrt(n), n - 1) if n > 1 else math.nan
    return mean, mean - half, mean + half


def _numbers(series: pd.DataFrame, columns: dict[str, Any], spec: dict[str, Any], n: int, d: int) -> list[dict[str, Any]]:
    """The numbers of the table, for every depth."""
    rows = []
    said = json.dumps(spec, sort_keys=True, ensure_ascii=False)
    for depth in sorted(set(series["layer"].dropna().astype(int)) - {0}):
        for metric, (values, note) in conclusions(series, depth).items():
            mean, low, high = interval(values)
            text = json.dumps(spec | {"note": note}, sort_keys=True, ensure_ascii=False) if note else said
            where = columns | {"layer": depth, "metric": metric, "n": n, "d": d, "spec": text}
            rows.append(where | {"value": mean, "low": low, "high": high})
    return rows


def conclusions(series: pd.DataFrame, depth: int) -> dict[str, tuple[np.ndarray, str]]:
    """What the curves of one network say at one depth: for each number its value by draw, and what is to be said of it."""

    def curve(name: str, layer: int) -> np.ndarray | None:
        own = series[series["name"].eq(name) & series["layer"].eq(layer)]
        return own.pivot_table(index="seed", columns="x", values="y").to_numpy(float) if len(own) else None

    norms = np.sort(series.loc[series["name"].eq("block_mean_norm"), "x"].unique())
    found: dict[str, tuple[np.ndarray, str]] = {}
    length = curve("block_mean_norm", depth)
    assert length is not None
    for metric, name in (("norm_fixed_point", "block_mean_norm"), ("drift_fixed_point", "block_drift_norm")):
        enters, leaves = curve(name, 0), curve(name, depth)
        assert enters is not None
        assert leaves is not None
        leaves = length if name == "block_mean_norm" else leaves
        each = np.array([fixed_point(norms, a, b) for a, b in zip(enters, leaves, strict=True)])
        found[metric] = each, verdict(norms, enters, leaves, each, length)
    cosines = curve("block_cosine", 0), curve("block_cosine", depth)
    assert cosines[0] is not None
    assert cosines[1] is not None
    found["output_norm_change"] = np.ptp(length, axis=1) / length.mean(1), ""
    found["least_cosine_gain"] = (cosines[1] - cosines[0]).min(1), ""
    for name in ("query", "key"):
        values = curve(f"block_{name}_cosine", depth)
        if values is not None:
            found[f"{name}_cosine_unbiased"] = values[:, 0], f"at a bias of norm {norms[0]:g}"
    return found


def verdict(norms: np.ndarray, enters: np.ndarray, leaves: np.ndarray, each: np.ndarray, length: np.ndarray) -> str:
    """Whether a crossing is a fixed point of the network or of its last norm, in words; `length` is the output's mean norm by draw."""
    crossed = int((~np.isnan(each)).sum())
    reach = f"N = {norms[0]:g} to {norms[-1]:g}"
    gap = leaves / np.maximum(enters, 1e-30) - 1
    if crossed < len(each):
        side = (
            "longer"
            if (gap > 0).all()
            else "shorter"
            if (gap < 0).all()
            else f"now longer, now shorter ({crossed} of {len(each)} draws cross)"
        )
        return f"no fixed point from {reach}: the output is {side} than the input, at the end by {100 * gap[:, -1].mean():+.2g} %"
    there = np.array([np.interp(at, norms, own) for at, own in zip(each, leaves, strict=True)])
    if float((np.ptp(length, axis=1) / length.mean(1)).mean()) < SET and there.mean() > (1 - SET) * length.mean():
        grows = "" if leaves is length else ", and its mean grows towards that"
        return f"not a property of the block: its last norm makes every output {length.mean():.2f} long for {reach}{grows}"
    low, high = leaves.mean(0).min(), leaves.mean(0).max()
    return f"a crossing: over {reach} the output's length runs from {low:.3g} to {high:.3g}"


def keep_trained(run: Run, table: pd.DataFrame, called: str) -> None:
    """Write the mean norms of trained models' layers into the run, to hold the fixed point against."""
    rows = table[table["metric"].eq("mean_norm") & table["kind"].eq("hidden") & table["policy"].eq("all") & table["value"].notna()]
    if rows.empty:
        raise IsoscopeError(f"{called} holds no mean_norm of hidden layers; --trained takes a model, or a run that isoscope measure made.")
    for (model, revision), own in rows.groupby(["model", "revision"], sort=False):
        identity = {"experiment": TRAINED, "model": model, "revision": revision, "norms": own["value"].tolist(), "shard": [0, 1]}
        kept = own.assign(kind=KIND, family=KIND, metric=TRAINED).astype(TABLE_COLUMNS)
        run.write_cell(identity, {"model": model, "revision": revision}, {}, kept)
