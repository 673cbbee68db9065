"""Measure a source in three shards, as three machines would, and merge them: the numbers are those of one pass.

python examples/shards.py
"""

import tempfile
from pathlib import Path

from tiny_model import tiny_model

import isoscope


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        model = str(tiny_model(folder / "tiny"))
        wanted = {"max_tokens": 8_000, "quiet": True}
        whole = isoscope.measure(model, out=folder / "whole", **wanted)
        for i in (1, 2, 3):
            isoscope.measure(model, out=folder / f"part{i}", shard=f"{i}/3", **wanted)
        merged = isoscope.merge([folder / f"part{i}" for i in (1, 2, 3)], folder / "merged")
        one, three = whole.table(), merged.table()
        keys = ["stack", "kind", "layer", "policy", "metric"]
        both = one.merge(three, on=keys, suffixes=("", "_merged")).dropna(subset=["value"])
        apart = ((both["value"] - both["value_merged"]).abs() / both["value"].abs().clip(lower=1e-3)).max()
        print(f"{len(one)} numbers in one pass, {len(three)} after the merge, {len(both)} defined in both")
        print(f"largest relative difference {apart:.0e}")
        print(f"the same cell key: {whole.manifests()[0]['key'] == merged.manifests()[0]['key']}")


if __name__ == "__main__":
    main()
