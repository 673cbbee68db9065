"""Pooled vectors: the states of an item's tokens, frames or patches become one vector, which people search and compare with.

An item longer than a sequence is read in chunks. Its vector is the mean of the chunks' vectors; for `mean` each chunk weighs as much as it
has positions, so that the vector is the mean over all positions of the item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.trust.model_files import MODULES, transformer_path
from isoscope.trust.safe_io import read_json

if TYPE_CHECKING:
    from torch import Tensor

    from isoscope.measuring.options import Options
    from isoscope.models.tapping.layout import BatchLayout, Layout
    from isoscope.statistics.site_statistics import SiteStatistics

DECLARED = {"cls_token": "cls", "mean_tokens": "mean", "lasttoken": "last"}
"""What sentence-transformers calls the ways of pooling that are known here."""
POOLER = "pooler_output"
"""The pooled vector that a model gives itself."""


@dataclass(frozen=True)
class Pooling:
    """How one vector is made of the states of a chunk: several modes side by side, or the model's own output; and whether to length 1."""

    modes: tuple[str, ...]
    normalizes: bool = False

    def __str__(self) -> str:
        return " and ".join(self.modes) + (", normalised" if self.normalizes else "")

    @property
    def is_output(self) -> bool:
        """Whether the model gives the vector itself."""
        return self.modes == (POOLER,)

    def chunk_vectors(self, points: Tensor, codes: np.ndarray, unit: str) -> tuple[Tensor, np.ndarray]:
        """The vector of each chunk (b, D) and how much it weighs (b,), from states (b, t, d) and the slice codes of their positions.

        The mean is over all positions but padding, special tokens included, as in sentence-transformers; of images it is over patches.
        """
        import torch

        x = points if points.dtype == torch.float64 else points.float()
        counted = codes >= 0
        rows = torch.arange(len(x), device=x.device)
        vectors, sizes = [], counted.sum(1)
        for mode in self.modes:
            if mode == "mean":
                averaged = counted & (codes > 0) if unit == "images" else counted
                sizes = averaged.sum(1)
                weights = torch.as_tensor(averaged / np.maximum(sizes, 1)[:, None], device=x.device, dtype=x.dtype)
                vectors.append(torch.einsum("bt,btd->bd", weights, x))
            else:
                at = counted.argmax(1) if mode == "cls" else codes.shape[1] - 1 - counted[:, ::-1].argmax(1)
                vectors.append(x[rows, torch.as_tensor(at, device=x.device)])
        return torch.cat(vectors, 1), np.asarray(sizes if self.modes == ("mean",) else np.minimum(sizes, 1), dtype=np.float64)


class ItemPool:
    """Adds up the vectors of each item's chunks, and hands an item over with its last one."""

    def __init__(self, pooling: Pooling, unit: str, model: str) -> None:
        self.pooling, self.unit, self.model = pooling, unit, model
        self._open: dict[tuple[Site, int], tuple[Tensor, float]] = {}

    def add_states(self, statistics: SiteStatistics, site: Site, points: Tensor, layout: Layout, batch: BatchLayout) -> None:
        """Add the states (b, t, d) of one batch."""
        if self.unit == "images" and "cls" in self.pooling.modes and not (layout.codes[:, 0] == 0).all():
            raise IsoscopeError(f"--pool cls takes the state of a class token, and {self.model} has none; use --pool mean.")
        self.add_vectors(statistics, site, *self.pooling.chunk_vectors(points, layout.codes, self.unit), batch)

    def add_vectors(self, statistics: SiteStatistics, site: Site, vectors: Tensor, weights: np.ndarray, batch: BatchLayout) -> None:
        """Add the vectors (b, D) of one batch."""
        import torch

        from isoscope.models.tapping.reduction import reduce_state

        rows = batch.rows(len(vectors))
        ends = rows.ends_item
        if ends.all() and not self._open and weights.all():
            complete, items = vectors, rows.item
        else:
            whole = [
                self._add_chunk((site, int(rows.item[i])), vectors[i], float(weights[i]), last=bool(ends[i])) for i in range(len(vectors))
            ]
            kept = [(vector, item) for vector, item in zip(whole, rows.item, strict=True) if vector is not None]
            if not kept:
                return
            complete, items = torch.stack([vector for vector, _ in kept]), np.array([item for _, item in kept], dtype=np.uint64)
        if self.pooling.normalizes:
            complete = torch.nn.functional.normalize(complete, dim=1)
        reduce_state(statistics, complete[:, None], batch.of_items(items), site, self.model)

    def _add_chunk(self, key: tuple[Site, int], vector: Tensor, weight: float, *, last: bool) -> Tensor | None:
        before, so_far = self._open.pop(key, (0.0, 0.0))
        total, weight = (before + weight * vector if weight else before), so_far + weight
        if not last:
            self._open[key] = total, weight
        return total / weight if last and weight else None


def choose_pooling(pool: str, declared: Pooling | None, unit: str, output: Tensor | None, model: str) -> Pooling:
    """The pooling that `--pool` asks for, of a model that reads tokens, frames or images.

    `declared` is what its folder says, and `output` the pooled vectors that it gave, if any.
    """
    if pool != "own":
        if (pool, unit) in {("cls", "frames"), ("last", "images")}:
            raise IsoscopeError(f"--pool {pool} is of tokens, and {model} reads {unit}; use --pool mean.")
        return Pooling((pool,))
    if declared is not None:
        return declared
    if output is None:
        raise IsoscopeError(f"{model} declares no pooling of its own: no 1_Pooling/config.json, no pooler; use --pool mean, cls or last.")
    return Pooling((POOLER,))


def declared_pooling(folder: Path) -> Pooling | None:
    """The pooling that the modules.json of a sentence-transformers folder declares; `folder` is that of its Transformer."""
    chain = next(
        (place for place in (folder, folder.parent) if (place / MODULES).is_file() and place / transformer_path(place) == folder), None
    )
    if chain is None:
        return None
    try:
        listed = sorted(read_json(chain / MODULES), key=lambda module: int(module["idx"]))[1:]
        named = [(str(module["type"]).rpartition(".")[2], str(module["path"]).strip("/")) for module in listed]
        if outside := [path for _, path in named if ".." in Path(path).parts]:
            raise IsoscopeError(f"{chain / MODULES} points outside its folder ({outside[0]}); it was not followed.")
        return pooling_of_modules([(kind, partial(read_json, chain / path / "config.json")) for kind, path in named], str(chain))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise IsoscopeError(f"{chain / MODULES} and its Pooling cannot be read ({error}); use --pool mean, cls or last.") from error


def pooling_of_modules(modules: Sequence[tuple[str, Callable[[], Any]]], model: str) -> Pooling | None:
    """The pooling of the modules behind a Transformer, from the class and the settings of each; None if there is none."""
    pooling: Pooling | None = None
    for kind, read_settings in modules:
        if kind == "Pooling":
            pooling = Pooling(_declared_modes(read_settings(), model))
        elif kind == "Normalize" and pooling is not None:
            pooling = Pooling(pooling.modes, normalizes=True)
        else:
            raise IsoscopeError(f"--pool own: {model} has a {kind} behind its pooling, which is not computed here; use --pool mean.")
    return pooling


def _declared_modes(config: dict[str, Any], model: str) -> tuple[str, ...]:
    named = config.get("pooling_mode")  # newer versions write one name, older ones a switch for each mode
    chosen = [name.removeprefix("pooling_mode_") for name, on in config.items() if name.startswith("pooling_mode_") and on is True]
    modes = tuple(named.split("+")) if isinstance(named, str) else tuple(DECLARED.get(name, name) for name in chosen)
    modes = tuple({"lasttoken": "last"}.get(mode, mode) for mode in modes)
    if not modes or set(modes) - set(DECLARED.values()):
        raise IsoscopeError(f"{model} pools by {', '.join(modes) or 'nothing'}, which is not computed here; use --pool mean, cls or last.")
    return modes


def find_pooled_sites(
    pooling: Pooling, shapes: Mapping[Site, Tensor], depth: Mapping[str, int], options: Options, pooled_output: Tensor | None
) -> tuple[dict[Site, Site], dict[Site, int]]:
    """By state, the site of the vectors that are pooled of it; and the width of each such site."""
    from isoscope.models.tapping.blocks import points_of

    states = [site for site in shapes if site.kind in ("hidden", "final")]
    last = {stack: max(site.layer or 0 for site in states if site.stack == stack) for stack in depth}
    sites = {site: Site(site.stack, "pooled", site.layer) for site in states}
    if pooling.is_output:
        output = Site(list(depth)[-1], "pooled", last[list(depth)[-1]])
        width = 0 if pooled_output is None else pooled_output.flatten(1).shape[1]
        return {site: pooled for site, pooled in sites.items() if pooled == output}, {output: width}
    sites = {site: pooled for site, pooled in sites.items() if options.wants_pooled(site, depth[site.stack], last[site.stack])}
    return sites, {pooled: int(points_of(shapes[site]).shape[-1]) * len(pooling.modes) for site, pooled in sites.items()}
