"""Peak memory of a run against what was announced, and against a longer run: it must not grow.

python benchmarks/memory.py MODEL [--tokens 20000]                     of the embedded text so many tokens, and four times as many
python benchmarks/memory.py MODEL --data FOLDER [--items 10 1000]      of clips, images or texts so many items

Every run has a process of its own. The peak of the same run differs from one time to the next, so each is repeated and its median is
printed with the lowest and the highest: a growth within that range says nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

CHILD = """
import json, sys, tempfile
import isoscope
from isoscope.core import machine
from isoscope.measuring import cost_estimate, model_feeder
announced = []
model_feeder.estimate_peak = lambda *given: announced.append(cost_estimate.estimate_peak(*given)) or announced[-1]
model, data, options = json.loads(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    spec = isoscope.measure(model, data, folder, **options).manifests()[0]["spec"]
read = {name: spec[name] for name in ("documents", "tokens", "counted")}
print(json.dumps({"announced": announced[0], "peak": machine.peak_memory(), **read}))
"""


def measured(model: str, data: str, options: dict[str, Any]) -> dict[str, Any]:
    """What a run in a process of its own announced, took and read."""
    command = [sys.executable, "-c", CHILD, json.dumps([model, data, options])]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--data")
    parser.add_argument("--items", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--sample", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    counts = [{"max_items": count} for count in given.items] if given.data else [{"max_tokens": n * given.tokens} for n in (1, 4)]
    first = 0.0
    for count in counts:
        options = count | {"sample": given.sample}
        found = [measured(given.model, given.data or "embedded", options) for _ in range(given.repeats)]
        announced, peak = (statistics.median(one[name] for one in found) / 1e6 for name in ("announced", "peak"))
        peaks = [one["peak"] / 1e6 for one in found]
        first = first or peak
        print(f"{found[0]['documents']:,} items, {found[0]['tokens']:,} {found[0]['counted']}: ", end="")
        print(f"announced {announced:.0f} MB, peak {peak:.0f} MB ({min(peaks):.0f} to {max(peaks):.0f} in {given.repeats}), ", end="")
        print(f"{peak / announced - 1:+.1%} against the announced, {peak / first - 1:+.1%} against the first", flush=True)


if __name__ == "__main__":
    main()
