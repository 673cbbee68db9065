"""Runs made of documents with known geometry, without a model."""

import numpy as np

from isoscope.core.site import Site
from isoscope.runs.results import Results
from isoscope.runs.rows import tables
from isoscope.runs.stored_cell import manifest_of
from isoscope.statistics.jackknife_groups import GROUPS
from isoscope.statistics.kernel import block_sums
from isoscope.statistics.sample import item_hash, point_hashes
from isoscope.statistics.site_statistics import SiteStatistics
from tests.runs.packing import pack, write_made_cell

D = 6
UNITS = np.array([item_hash(str(i)) for i in range(400)], dtype=np.uint64)


def site(x, mask, *, sample=4096):
    """The statistics of documents (g, t, d) of unequal length, as a pass over a corpus makes them."""
    g, t, d = x.shape
    unit = UNITS[:g]
    statistics = SiteStatistics(d, ["body"], second=True, sample=sample)
    sums = block_sums(x, mask)
    statistics.moments[0].add(sums, x[mask])
    statistics.groups.update((unit % np.uint64(GROUPS)).astype(np.int64), [sums], unit=unit.astype(np.int64))
    if sample:
        owner, index = np.repeat(unit, t), np.tile(np.arange(t), g)
        statistics.sample.update(
            x.reshape(-1, d).astype(np.float32), point_hashes(0, owner, index), owner, index, np.where(mask.ravel(), 0, -1)
        )
    return statistics


def corpus(rng, count, longest=12):
    """Documents with a mean of their own, and which of their positions there are."""
    x = 0.7 * rng.standard_normal((count, 1, D)) + 0.7 * rng.standard_normal((count, longest, D))
    return x, np.arange(longest) < (1 + np.minimum(rng.geometric(0.2, count), longest - 1))[:, None]


def moved(x, shift, stretch=1.0):
    """The same documents in another model: drifting, and stretched along one direction."""
    y = x * np.where(np.arange(D) == 2, stretch, 1.0)
    y[..., 0] += shift
    return y


def write(path, layers, mask, *, model="net", fingerprint="f", keep="all", step=None, seed=None, stack="encoder", final=None):
    """A run of one model, layer by layer; `final` is what leaves its last norm."""
    sites = {Site(stack, "hidden", i): site(x, mask) for i, x in enumerate(layers)}
    if final is not None:
        sites[Site(stack, "final", len(layers))] = site(final, mask)
    columns = {"model": model, "revision": "r", "step": step, "seed": seed, "modality": "text", "family": "encoder"}
    spec = {
        "data": "made",
        "fingerprint": fingerprint,
        "documents": len(mask),
        "tokens": int(mask.sum()),
        "counted": "tokens",
        "unit": "document",
        "seq_len": 12,
        "dtype": "float64",
    }
    rows, series = tables(sites, columns, spec)
    identity = {"model": model, "step": step, "seed": seed, "fingerprint": fingerprint, "shard": [0, 1]}
    arrays = None if keep == "rows" else pack(sites, sample=keep == "all").items
    key = f"{model}{step}{seed}{fingerprint}".replace("/", "-")
    write_made_cell(path, key, manifest_of(identity, columns, spec, keep), rows, series, arrays)
    return Results(path)
