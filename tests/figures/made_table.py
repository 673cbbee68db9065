"""A table and a series table as a run would give them, made from closed forms: two models, an untrained twin, three policies."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table

NAN = float("nan")
SIX, THIRTY = "org/decoder-six", "org/encoder-thirty"
POLICIES = ("all", "no-special", "body")


def metrics_at(depth: float, d: int, n: int, trained: bool, policy: str) -> dict[str, tuple[float, float, float]]:
    """metric: (value, half width of its interval, null) at a relative depth, shaped as trained models are."""
    calm = {"all": 1.0, "no-special": 0.95, "body": 0.55}[policy]
    cosine = 0.05 + 0.85 * calm * (depth**2 if trained else 0.05)
    top = 0.05 + 0.9 * np.exp(-(((depth - 0.5) / 0.25) ** 2)) * (calm**3 if trained else 0.05)
    rank = d * (0.75 - 0.6 * top)
    return {
        "mean_cosine": (cosine + 0.01, 0.012, 0.0),
        "between_cosine": (cosine, 0.015, 0.0),
        "within_cosine": (cosine + 0.1, 0.02, 0.0),
        "mean_norm": (10 + 30 * depth, 0.4, NAN),
        "drift_norm": ((10 + 30 * depth) * cosine**0.5, 0.5, NAN),
        "drift_ratio": (cosine * (1 - 0.4 * top), 0.01, 1 / n),
        "centred_cosine": (0.004 + 0.1 * top, NAN, 0.0),
        "top_share": (top, 0.03, (1 + (d / n) ** 0.5) ** 2 / d),
        "top_share_linear": (top**0.5 / 4, NAN, 1.2 / d),
        "top_share_norm_null": (0.6 * top, NAN, NAN),
        "effective_rank": (rank, 0.03 * rank, d * 0.97),
        "rankme": (rank * 0.8, NAN, d * 0.97),
        "matrix_entropy": (float(np.log(rank)) - 1, NAN, float(np.log(d))),
        "participation_ratio": (1 / top**1.5 + 1, NAN, d / (1 + d / n)),
        "isoscore": (1 / top**1.5 / (d - 1), NAN, 1 / (1 + d / n)),
        "stable_rank": (1 / cosine, NAN, d * 0.9),
        "spectral_decay": (NAN if depth == 0 else 0.5 + depth, 0.05, 0.0),
        "partition_isotropy": (-400 * cosine, NAN, -0.1),
        "top_dimension_share": (0.45 if trained else NAN, NAN, NAN),
        "top3_dimension_share": (0.7 if trained else NAN, NAN, NAN),
    }


def site_rows(site: dict[str, object], depth: float, d: int, n: int, trained: bool, policy: str) -> list[dict[str, object]]:
    """The rows of one site under one policy."""
    spec = json.dumps({"data": "text:default", "fingerprint": "f00d", "seq_len": 512, "dtype": "float32", "seed": 0, "torch": "2.9.0"})
    count = {"all": n, "no-special": n - 200, "body": n - 400}[policy]
    return [
        site
        | {"policy": policy, "metric": metric, "value": value, "low": value - half, "high": value + half, "n": count, "d": d}
        | {"null": null, "null_sd": 1e-5 if metric.endswith("_cosine") else NAN, "spec": spec}
        for metric, (value, half, null) in metrics_at(depth, d, n, trained, policy).items()
    ]


def series_rows(site: dict[str, object], depth: float, d: int, top: float, policy: str) -> list[dict[str, object]]:
    """Spectrum, dimension shares and norms of one site under one policy."""
    here = site | {"policy": policy}
    ranks = np.unique(np.geomspace(1, d, 24).astype(int))
    tail = ranks**-0.7 * np.exp(-ranks / d)
    spectrum = [
        here | {"name": "spectrum", "x": int(k), "y": 50 * (top if k == 1 else 0.3 * v * (1 - top))}
        for k, v in zip(ranks, tail, strict=True)
    ]
    dims = [here | {"name": "dimension_share", "x": 13 * k + 8, "y": 0.45 * 0.5**k} for k in range(10)]
    centre = 10 + 30 * depth
    edges = np.geomspace(centre / 2, centre * 30, 33)
    middle, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    share = np.exp(-((np.log(middle / centre) / 0.25) ** 2))
    share[-2] += 0.01 if policy != "body" else 0.0
    share = np.where(share / share.sum() < 1e-4, 0.0, share / share.sum())
    bins = [here | {"name": "norms", "x": x, "y": y, "weight": w} for x, y, w in zip(middle, share, width, strict=True)]
    return spectrum + dims + bins


def made_table(
    names: tuple[str, str] = (SIX, THIRTY), *, twin: bool = True, stacks: tuple[str, ...] = ("backbone",)
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables; the first model has six layers, the second thirty."""
    models = [(names[0], 6, 256, "causal", True), (names[1], 30, 576, "bert", True)]
    models += [(f"untrained:{names[0]}", 6, 256, "causal", False)] if twin else []
    rows: list[dict[str, object]] = []
    points: list[dict[str, object]] = []
    for model, depth, d, family, trained in models:
        for stack in stacks:
            who = {"model": model, "revision": "main", "modality": "text", "family": family, "stack": stack}
            who |= {} if trained else {"seed": 0}
            for kind in ("input_embedding", "output_embedding"):
                rows += site_rows(who | {"kind": kind}, 0.1, d, 5000, trained, "all")
            sites = [("hidden", layer) for layer in range(depth + 1)] + [("final", depth + 1)]
            for kind, layer in sites:
                for policy in POLICIES:
                    site = who | {"kind": kind, "layer": layer}
                    moved = (0.8 if kind == "final" else 1) * (0.7 if stack == "decoder" else 1)
                    rows += site_rows(site, min(layer, depth) / depth * moved, d, 20_000, trained, policy)
                    top = metrics_at(min(layer, depth) / depth, d, 20_000, trained, policy)["top_share"][0]
                    points += series_rows(site, min(layer, depth) / depth, d, top, policy)
    return make_table(rows, TABLE_COLUMNS), make_table(points, SERIES_COLUMNS)


ZOO: dict[str, tuple[str, str, dict[str, int], list[int]]] = {
    "gpt2": ("text", "decoder", {"decoder": 13}, [768]),
    "org/bert-base-uncased": ("text", "encoder", {"encoder": 13}, [768]),
    "t5-base": ("text", "encoder_decoder", {"encoder": 13, "decoder": 13}, [768]),
    "org/llama-30": ("text", "decoder", {"decoder": 31}, [2048]),
    "untrained:gpt2": ("text", "decoder", {"decoder": 13}, [768]),
    "canine-s": ("characters", "canine", {"characters": 3, "encoder": 13}, [768]),
    "byt5-small": ("characters", "byt5", {"encoder": 13, "decoder": 5}, [1472]),
    "wav2vec2-base": ("speech", "wav2vec2", {"encoder": 13}, [768]),
    "whisper-base": ("speech", "whisper", {"encoder": 7, "decoder": 7}, [512]),
    "hubert-large": ("speech", "wav2vec2", {"encoder": 25}, [1024]),
    "org/vit-base-patch16-224": ("images", "vision_transformer", {"encoder": 13}, [768]),
    "mit-b2": ("images", "hierarchical", {"encoder": 17}, [64, 128, 320, 512]),
    "resnet-50": ("images", "convolution", {"backbone": 17}, [256, 512, 1024, 2048]),
    "convnext-tiny": ("images", "convolution", {"backbone": 19}, [96, 192, 384, 768]),
}
"""Models of every group: modality, family, sites a stack, dimensions by stage."""

AROUND = {"before_norm": 0.05, "after_norm": 0.02, "before_activation": 0.02, "after_activation": 0.33, "map": 0.3}


def made_zoo(names: list[str] | None = None) -> pd.DataFrame:
    """A table of models of all five groups, whose drift and cosine wander as those of real models do; the seed is fixed."""
    rows: list[dict[str, object]] = []
    for i, (model, (modality, family, stacks, dims)) in enumerate(ZOO.items()):
        if names is not None and model not in names:
            continue
        rng = np.random.default_rng(i)
        for stack, sites in stacks.items():
            who = {"model": model, "revision": "main", "modality": modality, "family": family, "stack": stack}
            walk = rng.normal(0.03, 0.06, sites).cumsum() * (0.2 if model.startswith("untrained:") else 1)
            cosine = np.clip(0.08 + 0.07 * i % 0.4 + np.abs(walk), 0.005, 0.97)
            norm = 5 + 3 * np.abs(rng.normal(0.5, 1.0, sites).cumsum()) + 20 * cosine
            for layer in range(sites):
                d = dims[layer * len(dims) // sites]
                kinds = {"hidden": 0.0} | (AROUND if family == "convolution" else {})
                kinds |= {"final": -0.1} if family in ("decoder", "encoder_decoder") and layer == sites - 1 else {}
                for kind, more in kinds.items():
                    for k, policy in enumerate(POLICIES):
                        value = float(np.clip(cosine[layer] * (1 - 0.1 * k) + more, -0.02, 0.99))
                        numbers = {"mean_cosine": (value, 0.03), "drift_norm": (float(norm[layer]) * (1 - 0.05 * k), 0.4)}
                        numbers |= {"drift_ratio": (value * float(rng.uniform(0.8, 1)), 0.02)}
                        for metric, (number, half) in numbers.items():
                            at = layer + (kind == "final")
                            site = who | {"kind": kind, "layer": at, "policy": policy, "metric": metric, "value": number}
                            rows.append(site | {"low": number - half, "high": number + half, "n": 20_000, "d": d, "null": 0.0})
    return make_table(rows, TABLE_COLUMNS)
