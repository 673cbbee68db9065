"""Draw how each metric behaves, docs/metrics/*.svg: computed on clouds that are made for it, and on a real model's layers.

python tools/draw_metrics.py           all of them; a minute or two
python tools/draw_metrics.py NAME …    these

The real model is that of runs/gallery-minilm, which `make gallery` measures. Without that run its panel is left out.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from make_gallery import PICTURES, ROOT, light

from isoscope.charts.print_chart import PRINT, render_chart
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.estimation.metric import Metric, Series
from isoscope.estimation.profile import Profile
from isoscope.metrics import registry
from isoscope.testing import attention_cloud, random_attention, random_clouds

FOLDER = PICTURES.parent / "metrics"
RUN = ROOT / "runs" / "gallery-minilm"
N, D, SEQUENCES, POSITIONS = 300, 24, 20, 12
DRIFTS = (0.0, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0)
STRETCHES = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)
DIMENSIONS = (2, 3, 5, 8, 12, 18, 24)
SHARPNESS = (0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0)
Point = dict[str, Any]
Panel = tuple[str, str, list[Point]]
"""A title, what x is, and the points of its lines."""


def gaussian(seed: int = 0, shape: tuple[int, ...] = (N, D)) -> np.ndarray:
    """Isotropic points."""
    return np.random.default_rng(seed).standard_normal(shape)


def drifting(size: float) -> np.ndarray:
    """Isotropic points that all moved the same way, by `size` standard deviations in each dimension."""
    return gaussian() + size


def stretched(factor: float) -> np.ndarray:
    """Isotropic points that one direction stretches."""
    return gaussian() * np.where(np.arange(D) == 0, factor, 1.0)


def flat(k: float) -> np.ndarray:
    """Points that lie in k of the dimensions, with a trace of noise in all."""
    return gaussian(1)[:, : int(k)] @ np.linalg.qr(gaussian(2, (D, D)))[0][: int(k)] + 1e-3 * gaussian(3)


def attending(sharp: float = 1.0, drift: float = 0.0) -> Any:
    """Causal attention of queries and keys, the queries `sharp` times as long, both moved the same way by `drift`."""
    query, key = gaussian(4, (2, SEQUENCES, POSITIONS, D))
    return attention_cloud(sharp * (query + drift), key + drift)


def sweep_clouds(metric: Any, make_cloud: Callable[[float], Any], xs: tuple[float, ...]) -> list[Point]:
    """The metric on a cloud for each x, and its null."""
    numbers = [(x, metric(make_cloud(x))) for x in xs]
    values = [{"x": x, "y": float(number), "line": "value"} for x, number in numbers]
    nulls = [{"x": x, "y": number.null, "line": "null"} for x, number in numbers]
    return [point for point in values + nulls if math.isfinite(point["y"])]


def points_on_model(name: str) -> list[Point]:
    """The metric over the layers of a real model and of its untrained twin, averaged over heads; nothing without the run."""
    import isoscope

    if not RUN.exists():
        return []
    table = isoscope.open(RUN).table()
    rows = table[
        table["metric"].eq(name) & table["policy"].eq("all") & table["value"].notna() & table["layer"].notna() & table["kind"].ne("final")
    ]
    means = rows.groupby(["model", "layer"])["value"].mean().reset_index()
    return [
        {"x": int(row["layer"]), "y": float(row["value"]), "line": "untrained" if str(row["model"]).startswith("untrained") else "trained"}
        for row in means.to_dict("records")
    ]


def profile_shapes(profile: Profile) -> Iterator[Panel]:
    """A stack of twelve blocks whose middle, or whose end, is stretched more and more."""
    depth = np.arange(1, 13)

    def stack(shape: np.ndarray) -> Callable[[float], Any]:
        return lambda height: {0: cloud_of(gaussian())} | {int(i): cloud_of(stretched(1 + height * shape[i - 1])) for i in depth}

    yield "the middle blocks are stretched", "by", sweep_clouds(profile, stack(np.sin(np.pi * (depth - 0.5) / 12)), (0, 1, 2, 4, 8))
    yield "the last blocks are stretched", "by", sweep_clouds(profile, stack((depth - 1) / 11), (0, 1, 2, 4, 8))


def series_curves(series: Series) -> Iterator[Panel]:
    """The curve itself on three clouds."""
    if series.subject == "attention":
        made: dict[str, Any] = {name: attention_cloud(*random_attention()[name]) for name in ("isotropic", "drifting")}
    else:
        made = {name: cloud_of(random_clouds()[name]) for name in ("isotropic", "dominated", "heavy norms")}
    points = []
    for name, cloud in made.items():
        x, y, _ = series(cloud)
        points += [{"x": float(a), "y": float(b), "line": name} for a, b in zip(x, y, strict=True)]
    yield "the curve of three clouds" if len(made) == 3 else "the curve of two clouds", "x", points


def panels(entry: Metric | Series | Profile) -> Iterator[Panel]:
    """The panels of one metric."""
    if isinstance(entry, Profile):
        yield from profile_shapes(entry)
    elif isinstance(entry, Series):
        yield from series_curves(entry)
    elif entry.subject == "attention":
        yield "queries grow", "times as long", sweep_clouds(entry, lambda x: attending(sharp=x), SHARPNESS)
        yield "queries and keys drift", "by", sweep_clouds(entry, lambda x: attending(drift=x), DRIFTS)
    else:
        yield "all points drift", "by standard deviations", sweep_clouds(entry, drifting, DRIFTS)
        yield "one direction is stretched", "times", sweep_clouds(entry, stretched, STRETCHES)
        if entry.on_request or "neighbours" in entry.reads:
            yield f"points lie in few of {D} dimensions", "dimensions", sweep_clouds(entry, flat, DIMENSIONS)
    if isinstance(entry, Metric) and (points := points_on_model(entry.name)):
        yield "all-MiniLM-L6-v2", "layer", points


def scale(entry: Metric | Series | Profile, points: list[Point]) -> dict[str, Any]:
    """The vertical scale: wide enough that rounding does not look like an effect; of curves over decades a logarithm."""
    values = [point["y"] for point in points]
    low, high = min(values), max(values)
    if isinstance(entry, Series):
        return {"type": "log"} if low > 0 and high > 100 * low else {"zero": False}
    width = entry.range[1] - entry.range[0]
    least = 0.1 * (width if math.isfinite(width) else max(abs(low), abs(high)))
    if high - low >= least:
        return {"zero": False}
    middle = (low + high) / 2
    return {"domain": [middle - least / 2, middle + least / 2], "nice": True}


def picture(entry: Metric | Series | Profile) -> str:
    """All panels of a metric next to each other."""
    tones = {"value": "#4c78a8", "null": "#7d7f86", "trained": "#4c78a8", "untrained": "#e4762b"}
    tones |= {"isotropic": "#7d7f86", "dominated": "#4c78a8", "heavy norms": "#e4762b", "drifting": "#4c78a8"}
    drawn = []
    for title, x, points in panels(entry):
        names = list(dict.fromkeys(point["line"] for point in points))
        if not points:
            continue
        colour = {"field": "line", "type": "nominal", "title": None, "legend": {"orient": "bottom", "symbolType": "stroke"}}
        colour |= {"scale": {"domain": names, "range": [tones[name] for name in names]}}
        y = {"field": "y", "type": "quantitative", "title": None, "axis": {"tickCount": 3}, "scale": scale(entry, points)}
        across = {"field": "x", "type": "quantitative", "title": x, "axis": {"tickCount": 4, "grid": False}, "scale": {"nice": False}}
        mark = {"type": "line", "strokeWidth": 1.8}
        rounded = [point | {"y": float(f"{point['y']:.4g}"), "x": float(f"{point['x']:.4g}")} for point in points]
        panel = {"title": {"text": title, "fontSize": 11, "fontWeight": "normal"}, "width": 170, "height": 110, "data": {"values": rounded}}
        drawn.append(panel | {"mark": mark, "encoding": {"x": across, "y": y, "color": colour}})
    return light(render_chart({"hconcat": drawn, "resolve": {"scale": {"color": "independent"}}, "config": PRINT}, "svg").decode())


def main() -> int:
    """Draw all, or those named."""
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or registry.names():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = FOLDER / f"{name}.svg"
            path.write_text(picture(registry[name]), "utf-8")
        print(f"{path.stat().st_size:>6} {path.relative_to(ROOT)}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
