"""Exact nearest neighbours: how much faster than scikit-dimension, DADApy and faiss, how far from the floor, and in how much memory.

Usage: python benchmarks/neighbours.py [--n 4096 20000] [--d 384 768 4096] [--threads 1 2] [--k 2] [--repeats 7] [--large 100000]

Needs `pip install scikit-dimension faiss-cpu`; DADApy is installed by pip into an environment of its own, in a temporary folder that is
kept for the next time. All find the k nearest neighbours of the same float32 points, whose spectrum falls off as that of hidden states
does. Every repeat runs all of them in turn, so that a busy machine disturbs all alike. Shown are medians of CPU time, and the median
and range over repeats of how many times as much the others take. Of scikit-dimension that is `get_nn`, by which its estimators find
neighbours, and beside it a whole fit of `TwoNN`, which sorts all distances instead; of DADApy `Data.compute_distances`; of faiss
`IndexFlatL2`, built and searched, with its BLAS told what processor this is and used at its best (as installed it took five times as
long where this was written). The floor is the products of half of all pairs, by large products of BLAS. Memory is the peak of the process
during one search, less what it held before, in a process of its own; the points are among what it held.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

OURS, FLOOR, SEARCH, FIT, DADAPY, FAISS = "isoscope", "floor", "scikit-dimension", "TwoNN().fit", "DADApy", "faiss"
FOLDER = Path(tempfile.gettempdir()) / "isoscope-benchmark-dadapy"

DADAPY_SERVER = """
import contextlib, json, os, sys, time
import numpy as np
from dadapy import Data
answers = sys.stdout
for line in sys.stdin:
    path, k, threads = json.loads(line)
    points = np.load(path)
    with contextlib.redirect_stdout(sys.stderr):
        started, wall = time.process_time(), time.perf_counter()
        data = Data(points, n_jobs=threads, verbose=False)
        data.compute_distances(maxk=k)
        took = time.process_time() - started, time.perf_counter() - wall
    print(json.dumps([*took, np.asarray(data.distances)[:, 1 : k + 1].tolist()]), file=answers, flush=True)
"""


def made(n: int, d: int):
    """Points whose coordinates spread as 1/√i, around a mean that is not zero."""
    import numpy as np

    rng = np.random.default_rng(0)
    points = rng.standard_normal((n, d), dtype=np.float32)
    points /= np.sqrt(np.arange(1, d + 1, dtype=np.float32))
    points += rng.standard_normal(d, dtype=np.float32)
    return points


def environment(threads: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
    return os.environ | {name: str(threads) for name in names} | core()


def core() -> dict[str, str]:
    """The processor as numpy's OpenBLAS knows it: the older ones in wheels of others take a new one for one of twenty years ago."""
    import numpy  # noqa: F401
    from threadpoolctl import threadpool_info

    kinds = [library["architecture"] for library in threadpool_info() if library["internal_api"] == "openblas"]
    return {"OPENBLAS_CORETYPE": kinds[0]} if kinds else {}


def dadapy() -> Path:
    """The Python of an environment that has DADApy."""
    python = FOLDER / "bin" / "python"
    if not (FOLDER / "complete").exists():
        venv.create(FOLDER, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "dadapy"], check=True)
        (FOLDER / "complete").touch()
    return python


def settings(points, k: int, threads: int, server, path: str):
    """What is timed, by name: each gives its distances, or None, and DADApy its own times before them."""
    import faiss
    import numpy as np
    import skdim
    from skdim._commonfuncs import get_nn

    from isoscope.estimation.neighbours import neighbours

    faiss.omp_set_num_threads(threads)
    faiss.cvar.distance_compute_blas_threshold = 20  # queries from which it uses BLAS; quicker here than its default
    n, d = points.shape
    rows = min(n // 2, 4096)

    def flat():
        index = faiss.IndexFlatL2(d)
        index.add(points)
        return np.sqrt(np.maximum(index.search(points, k + 1)[0][:, 1:], 0))

    def asked():
        print(json.dumps([path, k, threads]), file=server.stdin, flush=True)
        return json.loads(server.stdout.readline())

    def half():
        """Two of the four quarters of all products."""
        for _ in range(2):
            for start in range(0, n // 2, rows):
                np.matmul(points[start : start + rows], points[n // 2 :].T)

    return {
        OURS: lambda: neighbours(points, k, threads=threads).distances,
        FLOOR: half,
        SEARCH: lambda: get_nn(points, k, n_jobs=threads)[0],
        FIT: lambda: skdim.id.TwoNN().fit(points) and None,
        DADAPY: asked,
        FAISS: flat,
    }


def timed(n: int, d: int, k: int, threads: int, repeats: int):
    """CPU and wall seconds by name, and the largest relative difference of distances from ours."""
    import numpy as np

    from isoscope.estimation.neighbours import neighbours

    points = made(n, d)
    took: dict[str, list[tuple[float, float]]] = {}
    differ: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/points.npy"
        np.save(path, points)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        with subprocess.Popen([dadapy(), "-c", DADAPY_SERVER], env=environment(threads), **pipes) as server:
            named = settings(points, k, threads, server, path)
            if n > 8192:
                del named[FIT]  # it sorts n² distances in float64
            neighbours(points[:1000], k, threads=threads)  # compiles
            warm = n <= 8192
            for repeat in range(repeats + warm):
                found = {}
                for name, run in named.items():
                    cpu, wall = time.process_time(), time.perf_counter()
                    found[name] = run()
                    times = time.process_time() - cpu, time.perf_counter() - wall
                    if name == DADAPY:
                        *times, found[name] = found[name]
                    if repeat >= warm:
                        took.setdefault(name, []).append(tuple(times))
                for name in (SEARCH, DADAPY, FAISS):
                    differ[name] = float(np.abs(np.asarray(found[name]) / found[OURS] - 1).max())
            server.stdin.close()
    return took, differ


def memory(n: int, d: int, k: int, threads: int) -> float:
    """Megabytes that a search needs at its peak, beyond the points; its results are among them."""
    from isoscope.estimation.neighbours import neighbours

    points = made(n, d)
    neighbours(points[:1000], k, threads=threads)

    def status(name: str) -> float:
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
        return float(line.split()[1]) / 1024

    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = status("VmRSS")
    neighbours(points, k, threads=threads)
    return status("VmHWM") - before


def large(n: int, d: int, k: int, threads: int) -> None:
    from isoscope.estimation.neighbours import estimate, neighbours

    points = made(n, d)
    print(f"{n} × {d}, {threads} threads: will take {estimate(n, d, threads):.0f} s", flush=True)
    started = time.perf_counter()
    found = neighbours(points, k, threads=threads)
    print(f"{n} × {d}, {threads} threads: took {time.perf_counter() - started:.0f} s; {found.again} points searched again")


def show(n: int, d: int, k: int, threads: int, took: dict[str, list[list[float]]], differ: dict[str, float]) -> None:
    print(f"n = {n}, d = {d}, k = {k}, {threads} {'thread' if threads == 1 else 'threads'}")
    for name, times in took.items():
        cpu, wall = (statistics.median(column) for column in zip(*times, strict=True))
        parts = [other[0] / own[0] for other, own in zip(times, took[OURS], strict=True)]
        if name == FLOOR:
            parts = [1 / part for part in parts]
        said = {OURS: "", FLOOR: "floors are what isoscope takes"}.get(name, "times as much")
        ratios = f"{statistics.median(parts):6.2f}  ({min(parts):.2f} to {max(parts):.2f}) {said}" if said else ""
        off = f"; distances differ by {differ[name]:.0e}" if name in differ else ""
        print(f"  {name:<17} CPU {cpu:8.3f} s  wall {wall:8.3f} s  {ratios}{off}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, nargs="+", default=[4096, 20000])
    parser.add_argument("--d", type=int, nargs="+", default=[384, 768, 4096])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--k", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7, help="of 4096 points; of more than 8192 there is one for every three")
    parser.add_argument("--large", type=int, default=0, help="also search so many points, and say beforehand how long it will take")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        kind, *sizes = given.child.split(":")
        n, d, threads = (int(size) for size in sizes)
        print(json.dumps(timed(n, d, given.k, threads, given.repeats) if kind == "time" else memory(n, d, given.k, threads)))
        return
    if any(importlib.util.find_spec(name) is None for name in ("skdim", "faiss")):
        sys.exit("This benchmark compares with other libraries: pip install scikit-dimension faiss-cpu, and run it again.")
    dadapy()

    def child(what: str, threads: int, repeats: int = 1):
        command = [sys.executable, __file__, "--child", what, "--k", str(given.k), "--repeats", str(repeats)]
        shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment(threads)).stdout
        return json.loads(shown.splitlines()[-1])

    for n in given.n:
        for d in given.d:
            for threads in given.threads:
                repeats = given.repeats if n <= 8192 else max(1, given.repeats // 3)
                show(n, d, given.k, threads, *child(f"time:{n}:{d}:{threads}", threads, repeats))
    for threads in given.threads:
        print(f"memory at 20000 × 768, {threads} threads: {child(f'memory:20000:768:{threads}', threads):.0f} MB above the points")
    if given.large:
        large(given.large, 768, given.k, max(given.threads))


if __name__ == "__main__":
    main()
