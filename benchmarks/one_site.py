"""What the default metrics of one site cost after the pass, with their intervals and nulls.

    python benchmarks/one_site.py                   d = 384, a sample of 4,096 of about 27,000 points
    python benchmarks/one_site.py --d 768 --documents 900
    python benchmarks/one_site.py --profile         also where the time goes

Points are those of made-up documents with a drift, variances that fall with the rank, and special tokens, so that each of the three
token policies has points of its own. `first policy` is one cloud of all tokens; `all policies` is the whole site with its tables. CPU time
on one thread, the least of several repeats; `cold` is the first site of a process.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable

import numpy as np

from isoscope.core.site import BODY, FIRST, SPECIAL, Site
from isoscope.estimation.cloud import Cloud
from isoscope.metrics import metrics
from isoscope.runs.rows import numbers, tables
from isoscope.statistics.jackknife_groups import GROUPS
from isoscope.statistics.kernel import block_sums, one_thread
from isoscope.statistics.sample import mix, point_hashes
from isoscope.statistics.site_statistics import SiteStatistics

SITE = Site("encoder", "hidden", 3)


def make_site(d: int, documents: int, seed: int = 0) -> SiteStatistics:
    """The statistics of a site, as a pass over documents of 20 to 160 tokens makes them."""
    rng, statistics = np.random.default_rng(seed), SiteStatistics(d, [SPECIAL, FIRST, BODY])
    axes = (np.linalg.qr(rng.standard_normal((d, d)))[0] / np.arange(1, d + 1)[:, None] ** 0.4).astype(np.float32)
    drift = 2 * axes[0] / np.linalg.norm(axes[0])
    for document in range(documents):
        t = int(rng.integers(20, 160))
        own, rest = (rng.standard_normal((rows, d), dtype=np.float32) for rows in (1, t))
        x = ((0.4 * own + 0.9 * rest) @ axes + drift) * rng.lognormal(0, 0.1, (t, 1)).astype(np.float32)
        codes = np.full(t, 2, np.int16)
        codes[[0, -1]], codes[1] = 0, 1
        x[codes == 0] += 0.3
        unit, sums = mix(np.array([document + 1], np.uint64)), []
        for code, moments in enumerate(statistics.moments):
            sums.append(block_sums(x[None], (codes == code)[None]))
            moments.add(sums[-1], x[codes == code])
        assert statistics.groups is not None
        assert statistics.sample is not None
        statistics.groups.update((unit % np.uint64(GROUPS)).astype(np.int64), sums, unit=unit.view(np.int64))
        owner, index = np.repeat(unit, t), np.arange(t)
        statistics.sample.update(x, point_hashes(0, owner, index), owner, index, codes)
    return statistics


def least(work: Callable[[], object], repeats: int) -> float:
    """The least CPU milliseconds of several calls."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return 1000 * min(times)


def first_policy(statistics: SiteStatistics) -> Cloud:
    cloud = Cloud.of(statistics, "all")
    assert cloud is not None
    return cloud


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", type=int, default=384)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    with one_thread():
        numbers(first_policy(make_site(300, 40)))  # loads what is compiled
        statistics = make_site(given.d, given.documents)
        sites = {SITE: statistics}
        print(f"d = {given.d}, points {[moments.n for moments in statistics.moments]}, sample {len(statistics.sample or [])}")
        print(f"cold, all policies {least(lambda: tables(sites, {}, {}), 1):8.0f} ms")
        print(f"first policy       {least(lambda: numbers(first_policy(statistics)), given.repeats):8.0f} ms")
        print(f"all policies       {least(lambda: tables(sites, {}, {}), given.repeats):8.0f} ms")
        # Metrics share their work, so each is timed when its turn comes, on a new cloud per repeat.
        spent: dict[str, list[float]] = {}
        for _ in range(given.repeats):
            cloud = first_policy(statistics)
            for metric in (metric for metric in metrics("points") if not metric.on_request and metric.available(cloud)):
                started = time.process_time()
                metric(cloud)
                spent.setdefault(metric.name, []).append(1000 * (time.process_time() - started))
        for name, times in sorted(spent.items(), key=lambda pair: -min(pair[1]))[:8]:
            print(f"  {name:30} {min(times):6.1f} ms")
        if given.profile:
            profile = cProfile.Profile(time.process_time)
            profile.runcall(tables, sites, {}, {})
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
