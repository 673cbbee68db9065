"""A matrix of embeddings: exactness and memory of `isoscope embeddings`, and the speed of sums against the machine's bandwidth.

Usage: python benchmarks/matrix.py [exact] [pairs] [bandwidth]

- exact: 200,000 × 768 float32 with an offset of 100 on every coordinate, from a file, against float64 brute force; the process's peak.
- pairs: the exact mean cosine of 100,000 × 768 in memory against drawing 10,000 random pairs.
- bandwidth: 1,000,000 × 768 in memory on one thread, mean cosine and all sums, as a share of the read bandwidth measured beside it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np


def median_of(act: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each act, interleaved so that a busy machine disturbs all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in act}
    for _ in range(repeats):
        for name, do in act.items():
            started = time.perf_counter()
            do()
            times[name].append(time.perf_counter() - started)
    return times


def say(name: str, seconds: list[float], extra: str = "") -> None:
    print(f"{name:<34} {statistics.median(seconds) * 1e3:9.1f} ms  ({min(seconds) * 1e3:.1f} to {max(seconds) * 1e3:.1f})  {extra}")


CHILD = """
import json, sys
from isoscope.runs.matrix_geometry import geometry
found = geometry(sys.argv[1])
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"found": {k: v.as_dict() for k, v in found.items()}, "peak": peak * 1024}))
"""
BARE = "print(next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM')) * 1024)"


def float64(X: np.ndarray) -> dict[str, float]:
    """The metrics of Moments by their definitions, everything held in float64."""
    x = X.astype(np.float64)
    n, d = x.shape
    lengths = np.linalg.norm(x, axis=1)
    u = x / lengths[:, None]
    s, mean = u.sum(0), x.mean(0)
    cosine = (s @ s - n) / (n * (n - 1))
    square = ((u.T @ u) ** 2).sum() - n
    parts = (s**2 - (u**2).sum(0)) / (n * (n - 1))
    del u
    raw = np.linalg.eigvalsh(x.T @ x)[::-1]
    values = np.linalg.eigvalsh((x - mean).T @ (x - mean))[::-1]
    p, q, e = np.sqrt(values) / np.sqrt(values).sum(), np.sqrt(raw) / np.sqrt(raw).sum() + 1e-7, values / values.sum()
    rank = np.arange(4, 101)
    slope = np.polyfit(-np.log(rank), np.log(values[3:100]), 1, w=np.sqrt(1 / rank))[0]
    return {
        "mean_cosine": cosine,
        "between_cosine": cosine,
        "cosine_sd": (square / (n * (n - 1)) - cosine**2) ** 0.5,
        "mean_norm": lengths.mean(),
        "drift_norm": (mean @ mean - (lengths**2).mean() / n) ** 0.5 * (n / (n - 1)) ** 0.5,
        "drift_ratio": (n * (mean @ mean) / (lengths**2).mean() - 1) / (n - 1),
        "top_share": values[0] / values.sum(),
        "top_share_linear": p[0],
        "effective_rank": np.exp(-(p * np.log(p)).sum()),
        "rankme": np.exp(-(q * np.log(q)).sum()),
        "matrix_entropy": -(e * np.log(e)).sum(),
        "participation_ratio": 1 / (e**2).sum(),
        "isoscore": (1 / (e**2).sum() - 1) / (d - 1),
        "stable_rank": raw.sum() / raw[0],
        "spectral_decay": slope,
        "top_dimension_share": np.sort(parts)[-1] / parts.sum(),
        "top3_dimension_share": np.sort(parts)[-3:].sum() / parts.sum(),
    }


def exact() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200_000, 768), dtype=np.float32) * rng.gamma(2.0, 1.0, 768).astype(np.float32) + np.float32(100)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", X)
        started = time.perf_counter()
        said = subprocess.run([sys.executable, "-c", CHILD, f"{folder}/x.npy"], check=True, capture_output=True, text=True).stdout
        seconds = time.perf_counter() - started
    answer = json.loads(said)
    bare = int(subprocess.run([sys.executable, "-c", BARE], check=True, capture_output=True, text=True).stdout)
    above = (answer["peak"] - bare) / 1e6
    print(f"200,000 x 768 from a file: {seconds:.1f} s, peak {above:.0f} MB above the interpreter's {bare / 1e6:.0f} MB")
    worst = ("", 0.0)
    for name, value in float64(X).items():
        if name not in answer["found"] or answer["found"][name]["n"] != len(X):
            continue  # sampled metrics are exact on their sample, which the tests check
        got = answer["found"][name]["value"]
        off = min(abs(got - value) / max(abs(value), 1e-300) / 1e-6, abs(got - value) / 1e-9)
        worst = max(worst, (name, off), key=lambda pair: pair[1])
        print(f"  {name:<22} {got:.12g}  brute force {value:.12g}  {'ok' if off <= 1 else 'OFF'}")
    print(f"  worst: {worst[0]} at {worst[1]:.3f} of the tolerance (1e-6 relative or 1e-9 absolute)")


def pairs() -> None:
    from isoscope.metrics import mean_cosine

    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 768), dtype=np.float32) + 1

    def draw() -> float:
        i, j = rng.integers(0, len(X), (2, 10_000))
        a, b = X[i], X[j]
        return float(((a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))).mean())

    times = median_of({"exact": lambda: mean_cosine(X), "pairs": draw}, 9)
    say("mean cosine, all 5e9 pairs", times["exact"])
    say(
        "10,000 random pairs",
        times["pairs"],
        f"exact takes {statistics.median(times['exact']) / statistics.median(times['pairs']):.2f} of it",
    )


def bandwidth() -> None:
    from threadpoolctl import threadpool_limits

    from isoscope.estimation.matrix_cloud import cloud_of
    from isoscope.metrics import mean_cosine

    X = np.empty((1_000_000, 768), dtype=np.float32)
    rng = np.random.default_rng(0)
    for i in range(0, len(X), 50_000):
        X[i : i + 50_000] = rng.standard_normal((50_000, 768), dtype=np.float32)
    words = X.reshape(-1).view(np.uint64)
    with threadpool_limits(1):
        times = median_of(
            {
                "read": lambda: [words[i : i + (1 << 22)].max() for i in range(0, len(words), 1 << 22)],
                "cosine": lambda: mean_cosine(X),
                "sums": lambda: cloud_of(X, ("directions", "sums", "groups")),
            },
            5,
        )
    read = statistics.median(times["read"])
    say("reading 3 GB", times["read"], f"{X.nbytes / read / 1e9:.1f} GB/s")
    for name in ("cosine", "sums"):
        say(
            {"cosine": "mean cosine", "sums": "all sums"}[name],
            times[name],
            f"{read / statistics.median(times[name]):.0%} of the read bandwidth",
        )


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["exact", "pairs", "bandwidth"]
    for name in chosen:
        {"exact": exact, "pairs": pairs, "bandwidth": bandwidth}[name]()
