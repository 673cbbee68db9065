"""Two suites of checkpoints as a run would give them: queries and keys are drawn and measured, hidden geometry comes from closed forms."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table

STEPS = (0, 1, 2, 4, 8, 16, 32, 64, 128)
SEEDS = {0: STEPS, 1: (0, 8, 128), 2: (0, 128)}
LAYERS, HEADS, D, N = 3, 4, 32, 96
SUITES = ("org/toy-encoder", "org/toy-decoder")
POLICIES = ("all", "body")
SAME, OPPOSITE = (1, 0), (3, 2)
BASES = {"union": ("query", "key"), "query": ("query",), "key": ("key",)}


def progress(step: int) -> float:
    """From 0 at the beginning to 1 at the end."""
    return float(np.log1p(step) / np.log1p(STEPS[-1]))


def vectors(model: str, seed: int, layer: int, head: int, step: int) -> dict[str, np.ndarray]:
    """Queries and keys (N, D) of a head: noise, and means that grow along one direction; of the last layer's they part."""
    rng = np.random.default_rng([SUITES.index(model), seed, layer, head])
    common = rng.normal(size=D) / D**0.5
    sign = -1 if layer == LAYERS else 1
    own = {kind: rng.normal(size=D) / D**0.5 for kind in ("query", "key")}
    noise = np.random.default_rng([7, seed, layer, head, step])
    grown = 4 * progress(step) * (1 + 0.3 * head)
    return {
        kind: noise.normal(size=(N, D)) * 0.5 + 0.3 * own[kind] + grown * way * common + 0.4 * progress(step) * own[kind]
        for kind, way in (("query", 1), ("key", sign))
    }


def head_rows(who: dict[str, object], q: np.ndarray, k: np.ndarray, step: int) -> list[dict[str, object]]:
    """The rows of one head at one checkpoint, exact in its means."""
    rows: list[dict[str, object]] = []
    q_mean, k_mean = q.mean(0), k.mean(0)
    lengths = float(np.linalg.norm(q_mean) * np.linalg.norm(k_mean))
    dot = float(q_mean @ k_mean)
    scale = D**-0.5
    layer = int(str(who["layer"]))
    entropy = 3.5 * (1 - 0.5 * progress(step) * (1.2 - 0.2 * layer))
    numbers = {
        "qk_cosine": (dot / lengths, 0.0, D**-0.5),
        "qk_dot": (scale * dot, 0.0, scale * lengths / D**0.5),
        "attention_entropy": (entropy, 3.5, np.nan),
        "attention_entropy_normalised": (entropy / 3.5, 1.0, np.nan),
    }
    for policy in POLICIES:
        here = who | {"policy": policy, "n": N, "d": D}
        rows += [
            here | {"kind": "attention", "metric": metric, "value": value, "null": null, "null_sd": sd}
            for metric, (value, null, sd) in numbers.items()
        ]
        rows += [
            here | {"kind": kind, "metric": metric, "value": value}
            for kind, points in (("query", q), ("key", k))
            for metric, value in (
                ("drift_norm", float(np.linalg.norm(points.mean(0)))),
                ("drift_ratio", float((points.mean(0) ** 2).sum() / (points**2).sum(1).mean())),
            )
        ]
    return rows


def hidden_rows(who: dict[str, object], seed: int, step: int) -> list[dict[str, object]]:
    """Hidden layers of one checkpoint."""
    rows: list[dict[str, object]] = []
    for layer in range(LAYERS + 1):
        t, depth = progress(step), layer / LAYERS
        cosine = 0.02 + 0.6 * t * depth + 0.02 * seed * t
        dimension = 6 + 8 * t * (1.25 - t) * (1 + depth)
        numbers = {"mean_cosine": cosine, "between_cosine": cosine, "drift_ratio": 0.9 * cosine, "top_share": 0.1 + 0.3 * t * depth}
        numbers |= {"two_nn": dimension, "effective_rank": 60 - 20 * t * depth, "mean_norm": 4 + t}
        for policy in POLICIES:
            at = who | {"kind": "hidden", "layer": layer, "policy": policy, "n": 4000, "d": 128}
            rows += [
                at
                | {"metric": metric, "value": value, "low": value - 0.01, "high": value + 0.01, "null": 13.0 if metric == "two_nn" else 0.0}
                for metric, value in numbers.items()
            ]
    return rows


def component_points(
    who: dict[str, object], name: str, points: dict[int, dict[str, np.ndarray]], *, cloud: bool
) -> list[dict[str, object]]:
    """Means (and clouds) of a head at all steps on components that all steps share."""
    rows: list[dict[str, object]] = []
    for basis, kinds in BASES.items():
        every = np.concatenate([found[kind] for found in points.values() for kind in kinds])
        _, values, components = np.linalg.svd(every, full_matrices=False)
        held = float((values[:2] ** 2).sum() / (values**2).sum())
        for step, found in points.items():
            for kind, vectors_ in found.items():
                here = who | {"step": step, "kind": kind, "policy": "all"}
                x, y = components[:2] @ vectors_.mean(0)
                rows.append(here | {"name": f"mean_in_{basis}", "x": x, "y": y, "weight": held})
                along = components[:8] @ vectors_.mean(0)
                rows += [here | {"name": f"mean_along_{basis}", "x": i + 1, "y": float(c)} for i, c in enumerate(along)]
                if cloud:
                    rows += [here | {"name": f"cloud_in_{basis}", "x": a, "y": b} for a, b in vectors_[:48] @ components[:2].T]
    return rows


def derived_rows(who: dict[str, object], table: pd.DataFrame) -> list[dict[str, object]]:
    """What is said of a suite as a whole."""
    rows: list[dict[str, object]] = []
    cosines = table[table["metric"].eq("qk_cosine") & table["policy"].eq("all")]
    for (seed, step, layer), own in cosines.groupby(["seed", "step", "layer"]):
        here = who | {"kind": "attention", "layer": layer, "seed": seed, "step": step, "policy": "all"}
        rows.append(here | {"metric": "alignment", "value": float((own["value"] ** 2).mean()), "null": 1 / D, "null_sd": 0.02})
        rows.append(here | {"metric": "qk_cosine_joined", "value": float(own["value"].mean()), "d": D * HEADS})
    ends = cosines[cosines["seed"].eq(0) & cosines["step"].eq(cosines["step"].max())].set_index(["layer", "head"])["value"]
    for metric, (layer, head) in (("same_direction", SAME), ("opposite_direction", OPPOSITE)):
        note = json.dumps({"note": "the head with the largest (smallest) cosine at the last step"})
        rows.append(
            who | {"kind": "attention", "layer": layer, "head": head, "metric": metric, "value": float(ends[layer, head]), "spec": note}
        )
    for layer in (*range(LAYERS + 1), None):
        said = json.dumps({"verdict": "holds" if layer in (2, 3) else "undecided", "note": "in 0 of 1 seeds both lower bounds exceed 10 %"})
        rows.append(
            who | {"kind": "hidden", "layer": layer, "policy": "all", "metric": "rise_then_fall", "value": 0.0, "n": 1, "spec": said}
        )
    for layer in range(1, LAYERS + 1):
        rows.append(who | {"kind": "attention", "layer": layer, "policy": "all", "metric": "alignment_p", "value": 0.01 * layer})
        change = who | {
            "kind": "attention",
            "layer": layer,
            "policy": "all",
            "metric": "alignment_change",
            "value": 0.7,
            "low": 0.6,
            "high": 0.8,
        }
        rows.append(change)
        for head in range(HEADS):
            at = who | {"layer": layer, "head": head}
            first = {"query": 1 + head, "key": 2 * (1 + head)}
            rows += [
                at | {"kind": kind, "metric": "onset_drift", "value": value, "low": value / 2, "high": 2 * value}
                for kind, value in first.items()
            ]
            rows.append(at | {"kind": "attention", "metric": "onset_sharpening", "value": 4 * layer, "low": 4 * layer, "high": 16 * layer})
    return rows


def made_suite(models: tuple[str, ...] = SUITES, seeds: dict[int, tuple[int, ...]] | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables of these suites: every checkpoint, and what is derived from them."""
    rows: list[dict[str, object]] = []
    points: list[dict[str, object]] = []
    for model in models:
        stack = "decoder" if "decoder" in model else "encoder"
        suite = {"model": model, "modality": "text", "family": stack, "stack": stack}
        mine: list[dict[str, object]] = []
        for seed, steps in (seeds or SEEDS).items():
            found: dict[tuple[int, int], dict[int, dict[str, np.ndarray]]] = {}
            for step in steps:
                who = suite | {"revision": f"{step:04x}", "step": step, "seed": seed}
                mine += hidden_rows(who, seed, step)
                for layer in range(1, LAYERS + 1):
                    for head in range(HEADS):
                        own = vectors(model, seed, layer, head, step)
                        found.setdefault((layer, head), {})[step] = own
                        mine += head_rows(who | {"layer": layer, "head": head}, own["query"], own["key"], step)
            for (layer, head), own_steps in found.items():
                at = suite | {"seed": seed, "layer": layer, "head": head}
                points += component_points(at, model, own_steps, cloud=seed == 0 and (layer, head) in (SAME, OPPOSITE))
        points += [
            suite | {"kind": "hidden", "seed": 0, "step": step, "policy": "all", "name": name, "x": step, "y": 6 + height * t * (1.25 - t)}
            for name, height in (("dimension_judged", 16), ("dimension_gaussian", 4))
            for step, t in ((step, progress(step)) for step in STEPS)
        ]
        rows += mine + derived_rows(suite, make_table(mine, TABLE_COLUMNS))
    return make_table(rows, TABLE_COLUMNS), make_table(points, SERIES_COLUMNS)
