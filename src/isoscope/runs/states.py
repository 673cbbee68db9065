"""Check the saved statistics of a cell once, where they are read, so that no metric need check them again.

Each array must have the type and shape that a pass writes, hold finite numbers that float32 vectors can add up to, and count as many
points as the arrays next to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from isoscope.core.machine import memory_left
from isoscope.core.site import ATTENTION_ROW_KINDS, KINDS, POINTS, POLICIES, QUERY_KEY_KINDS, Site, base_slice
from isoscope.statistics.attention_statistics import EDGES, ROW_SUMS, SEQUENCE_SUMS
from isoscope.statistics.head_statistics import HEAD_GROUPS
from isoscope.statistics.jackknife_groups import GROUPS, PRODUCTS, groups_at

State = Mapping[str, np.ndarray]

WITHOUT_LAYER = ("input_embedding", "output_embedding")
DEEPEST = 1 << 20
"""The numbers of layers stay below this."""
MOST = 1 << 53
"""Numbers of points stay below this: float64 could not count further."""
LARGEST = 2.0**256
"""Sums of float32 vectors stay below this, and sums of their products below its square."""
SMALL_SAMPLES = 1 << 28
"""Samples that take fewer bytes are read without a look at how much memory is free."""
BYTES_PER_POINT = 26
"""Bytes that a sample keeps per point in addition to its coordinates: hash, item, index and slice."""
SLACK = 1.01
"""Rounding may make a sum of unit vectors larger than their number by this factor."""
INTEGERS, COUNTS, HASHES, PLACES, FLOATS, EITHER = "i8 i4", "i8", "u8", "i2", "f8", "f4 f8"
"""The types of arrays, as NumPy writes them."""


@dataclass(frozen=True)
class Outline:
    """The sizes of one site's state, which must agree with those of other sites. States themselves may be too large to hold together."""

    heads: int
    width: int
    names: list[str]
    """The slices, in their order."""
    room: int
    """Bytes that its sample allocates: twice as many points as it keeps."""


def mistake_in_statistics(states: Mapping[str, State]) -> str:
    """What is wrong with the states of sites, by label; empty if nothing is."""
    for label, state in states.items():
        if mistake := mistake_in_site(label, state):
            return f"{label!r:.80}: {mistake}"
    return mistake_among({label: outline_of(state) for label, state in states.items()})


def mistake_in_site(label: str, state: State) -> str:
    """What is wrong with the state of one site, or with its label."""
    return _mistake_in_label(label) or mistake_in_state(Site.parse(label).kind, state)


def mistake_among(outlines: Mapping[str, Outline]) -> str:
    """Why sites that are correct one by one do not belong to one model."""
    if not outlines:
        return "it holds no site"
    room = sum(outline.room for outline in outlines.values())
    if room > SMALL_SAMPLES and room > (free := memory_left()):
        return f"its samples would take {room / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are free"
    return next((f"{label}: {mistake}" for label in outlines if (mistake := _mistake_in_pair(Site.parse(label), outlines))), "")


def _mistake_in_label(label: str) -> str:
    """Why this is not the name of a site."""
    found = re.fullmatch(r"[^./\s]{1,80}\.([a-z0-9_]{1,80})(?:\.([0-9]{1,7}))?", label)
    if found is None or found[1] not in KINDS or Site.parse(label).label != label:
        return "no site has this name"
    layer = Site.parse(label).layer
    if (layer is None) != (found[1] in WITHOUT_LAYER) or (layer or 0) >= DEEPEST:
        return f"no {found[1]} has the layer {layer}"
    return ""


def mistake_in_state(kind: str, state: State) -> str:
    """What is wrong with the state of a site of this kind; empty if nothing is."""
    # Each check is a generator that yields an empty text for what is right. It runs only up to the first mistake: what follows may
    # read arrays that an earlier check has found to be there.
    checks = _mistakes_in_attention(state) if kind in ATTENTION_ROW_KINDS else _mistakes_in_points(state, heads=kind in QUERY_KEY_KINDS)
    return next(filter(None, checks), "")


def _mistake_in_shape(state: State, name: str, types: str, shape: tuple[int | None, ...]) -> str:
    """Why an array does not have one of these types and this shape; None in a shape stands for any length."""
    if name not in state:
        return f"it lacks {name}"
    array = state[name]
    if array.dtype.str.lstrip("<|") not in types.split():
        return f"{name} holds {array.dtype}"
    if array.ndim != len(shape) or any(size not in (None, there) for size, there in zip(shape, array.shape, strict=True)):
        expected = ", ".join("any" if size is None else str(size) for size in shape)
        return f"{name} has the shape {array.shape}, and ({expected}) is expected"
    return ""


def _mistake_in_numbers(state: State, name: str, types: str, shape: tuple[int | None, ...], most: float = LARGEST) -> str:
    """The same, or why the numbers in an array are not finite or too large."""
    if mistake := _mistake_in_shape(state, name, types, shape):
        return mistake
    # `not … < most`, since NaN is not below anything.
    if state[name].size and not max(-float(state[name].min()), float(state[name].max())) < most:
        return f"{name} holds NaN, infinity or numbers that no sum reaches"
    return ""


def _mistakes_in_slices(state: State, lead: tuple[int, ...]) -> Iterator[str]:
    """Mistakes in the names of slices and their order."""
    order = [name for name in state if name.startswith("slices.")]
    if not order:
        yield "it names no slice"
    for name in order:
        if base_slice(name.removeprefix("slices.")) not in (*POLICIES["all"], POINTS) or not re.fullmatch(r"[a-z0-9.:+-]{1,200}", name):
            yield f"it has the slice {name.removeprefix('slices.')!r:.60}"
        yield _mistake_in_shape(state, name, INTEGERS, (*lead, 1))
    if lead:
        yield next((f"{name} differs between heads" for name in order if (state[name] != state[name][0]).any()), "")
    if sorted(int(state[name].flat[0]) for name in order) != list(range(len(order))):
        yield "its slices have no order"


def slice_names(state: State) -> list[str]:
    """The slices of a state, in their order."""
    places = {name.removeprefix("slices."): int(array.flat[0]) for name, array in state.items() if name.startswith("slices.")}
    return sorted(places, key=places.__getitem__)


def _mistakes_in_points(state: State, *, heads: bool) -> Iterator[str]:
    """Mistakes in moments, groups and a sample; the first axis of those of heads is the head."""
    lead: tuple[int, ...] = ()
    if heads:
        first = next((array for name, array in state.items() if name.startswith("slices.")), None)
        if first is None or first.ndim != 2 or not len(first):
            yield "it has no heads"
        else:
            lead = (len(first),)
    yield from _mistakes_in_slices(state, lead)
    names = slice_names(state)
    counts = f"moments.{names[0]}.counts"
    yield _mistake_in_shape(state, counts, COUNTS, (*lead, 3))
    d = int(state[counts].flat[0])
    for name in names:
        yield from _mistakes_in_moments(state, f"moments.{name}.", lead, d)
    if heads and not all(f"moments.{name}.second.n" in state for name in names):
        yield "it lacks second moments"
    if heads or any(name.startswith("groups.") for name in state):
        yield from _mistakes_in_groups(state, names, lead, d)
    if any(name.startswith("sample.") for name in state):
        yield from _mistakes_in_sample(state, names, lead, d)
    known = ("slices.", *(f"moments.{name}." for name in names), "groups.", "sample.")
    yield next((f"it holds {name!r:.80}" for name in state if not name.startswith(known)), "")


def _mistakes_in_moments(state: State, at: str, lead: tuple[int, ...], d: int) -> Iterator[str]:
    """Mistakes in counts, zeros, sums, and second moments if they are kept."""
    yield _mistake_in_shape(state, f"{at}counts", COUNTS, (*lead, 3))
    counts = state[f"{at}counts"]
    n, zeros = counts[..., 1], counts[..., 2]
    if d < 1 or (counts[..., 0] != d).any():
        yield f"{at}counts holds the width {counts.flat[0]}"
    if (n < 0).any() or (n >= MOST).any() or (zeros < 0).any() or (zeros > n).any():
        yield f"{at}counts holds {counts.reshape(-1, 3)[0, 1]} points, {counts.reshape(-1, 3)[0, 2]} of them zero"
    if lead and (n != n[0]).any():
        yield f"{at}counts differs between heads"
    yield _mistake_in_numbers(state, f"{at}norms", FLOATS, (*lead, 2), LARGEST**2)
    if (state[f"{at}norms"] < 0).any():
        yield f"{at}norms holds lengths below zero"
    yield _mistake_in_numbers(state, f"{at}sums", FLOATS, (*lead, 3, d))
    sums, alive = state[f"{at}sums"], (n - zeros)[..., None]
    if (abs(sums[..., 1, :]) > SLACK * alive).any() or (sums[..., 2, :] > SLACK * alive).any() or (sums[..., 2, :] < 0).any():
        yield f"{at}sums holds more than its unit vectors add up to"
    for kind, points in (("second", n), ("cosine", n - zeros)):
        if any(name.startswith(f"{at}{kind}.") for name in state):
            yield from _mistakes_in_second_moments(state, f"{at}{kind}.", lead, d, points)


def _mistakes_in_second_moments(state: State, at: str, lead: tuple[int, ...], d: int, points: np.ndarray) -> Iterator[str]:
    """Mistakes in second moments; up to d points, the points themselves are kept instead."""
    yield _mistake_in_shape(state, f"{at}n", COUNTS, (*lead, 2))
    counts = state[f"{at}n"]
    if (counts[..., 1] != d).any() or (counts[..., 0] != points).any():
        yield f"{at}n counts {counts.flat[0]} points of width {counts.flat[1]}"
    n = int(counts.flat[0])
    if n <= d:
        yield _mistake_in_numbers(state, f"{at}points", EITHER, (*lead, n, d))
        return
    if f"{at}points" in state:
        yield f"{at}points are more than {d}"
    yield _mistake_in_numbers(state, f"{at}shift", FLOATS, (*lead, d))
    yield _mistake_in_numbers(state, f"{at}total", FLOATS, (*lead, d))
    yield _mistake_in_numbers(state, f"{at}outer", FLOATS, (*lead, d * (d + 1) // 2), LARGEST**2)
    yield _mistake_in_numbers(state, f"{at}step", FLOATS, (*lead, 1), 1.0)
    if (state[f"{at}step"] < 0).any():
        yield f"{at}step lies below zero"


def _mistakes_in_groups(state: State, names: list[str], lead: tuple[int, ...], d: int) -> Iterator[str]:
    """Mistakes in sums by groups of items, which must count as many points as the moments."""
    k, groups = len(names), HEAD_GROUPS if lead else groups_at(d)
    yield _mistake_in_numbers(state, "groups.counts", FLOATS, (*lead, 4, k, groups), LARGEST**2)
    yield _mistake_in_numbers(state, "groups.sums", FLOATS, (*lead, 2, k, groups, d))
    yield _mistake_in_numbers(state, "groups.products", FLOATS, (*lead, PRODUCTS, groups, k, k), LARGEST**2)
    yield _mistake_in_shape(state, "groups.units", COUNTS, (*lead, groups))
    counts, units = state["groups.counts"], state["groups.units"]
    if (counts < 0).any() or (units < 0).any() or (units >= MOST).any() or (state["groups.products"][..., 1::2, :, :, :] < 0).any():
        yield "its groups hold counts below zero or beyond any pass"
    moments = np.stack([state[f"moments.{name}.counts"] for name in names], axis=-2)
    n, zeros = moments[..., 1], moments[..., 2]
    if (counts[..., 0, :, :].sum(-1) != n).any() or (counts[..., 1, :, :].sum(-1) != n - zeros).any():
        yield "its groups hold other points than its moments"
    if lead and (units != units[0]).any():
        yield "groups.units differs between heads"
    opened = ("groups.open_units", "groups.open_sums", "groups.open_counts")
    if any(name in state for name in opened):
        yield _mistake_in_shape(state, opened[0], COUNTS, (*lead, None))
        count = state[opened[0]].shape[-1]
        yield _mistake_in_numbers(state, opened[1], FLOATS, (*lead, count, 2, k, d))
        yield _mistake_in_numbers(state, opened[2], FLOATS, (*lead, count, 2, k), MOST)
        if (state[opened[2]] < 0).any() or any(len(set(row)) < count for row in state[opened[0]].reshape(-1, count).tolist()):
            yield "items that are not finished are counted twice or below zero"
        if lead and (state[opened[0]] != state[opened[0]][0]).any():
            yield f"{opened[0]} differs between heads"


def _mistakes_in_sample(state: State, names: list[str], lead: tuple[int, ...], d: int) -> Iterator[str]:
    """Mistakes in sampled points, each with its hash, item, place and slice."""
    yield _mistake_in_shape(state, "sample.k", COUNTS, (*lead, 2))
    k = int(state["sample.k"].flat[1])
    if (state["sample.k"] != [d, k]).any() or not 0 < k < MOST:
        yield f"its sample has room for {k} points of width {state['sample.k'].flat[0]}"
    yield _mistake_in_shape(state, "sample.hashes", HASHES, (*lead, None))
    m = state["sample.hashes"].shape[-1]
    n = sum(int(state[f"moments.{name}.counts"].flat[1]) for name in names)
    if m > min(k, n):
        yield f"its sample holds {m} points of {n}, and has room for {k}"
    yield _mistake_in_shape(state, "sample.unit", HASHES, (*lead, m))
    yield _mistake_in_shape(state, "sample.index", COUNTS, (*lead, m))
    yield _mistake_in_shape(state, "sample.slice", PLACES, (*lead, m))
    yield _mistake_in_numbers(state, "sample.points", EITHER, (*lead, m, d))
    if (state["sample.slice"] < 0).any() or (state["sample.slice"] >= len(names)).any():
        yield "points of its sample are of no slice"
    if lead:
        same = ("sample.hashes", "sample.unit", "sample.index", "sample.slice")
        yield next((f"{name} differs between heads" for name in same if (state[name] != state[name][0]).any()), "")


def outline_of(state: State) -> Outline:
    """The outline of a state that has no mistake."""
    names = slice_names(state)
    if "e" in state:
        return Outline(len(state["sums"]), int(state["e"][0]), names, 0)
    sums = state[f"moments.{names[0]}.sums"]
    heads, width = len(sums) if sums.ndim == 3 else 1, sums.shape[-1]
    points = state.get("sample.points")
    room = 0 if points is None else 2 * int(state["sample.k"].flat[1]) * heads * (points.itemsize * width + BYTES_PER_POINT)
    return Outline(heads, width, names, room)


def _mistakes_in_attention(state: State) -> Iterator[str]:
    """Mistakes in sums over attention rows by head, slice and group, and over sequences."""
    yield from _mistakes_in_slices(state, ())
    yield _mistake_in_shape(state, "e", COUNTS, (2,))
    e, median = state["e"].tolist()
    if not 0 < e < MOST or median not in (0, 1):
        yield f"e holds {e} and {median}"
    yield _mistake_in_numbers(state, "scale", FLOATS, (1,))
    k = len(slice_names(state))
    yield _mistake_in_numbers(state, "sums", FLOATS, (None, k, GROUPS, len(ROW_SUMS)), LARGEST**2)
    h = len(state["sums"])
    if not h:
        yield "it has no heads"
    yield _mistake_in_numbers(state, "sequences", FLOATS, (h, GROUPS, len(SEQUENCE_SUMS)), LARGEST)
    rows, many, opened = (state["sums"][..., ROW_SUMS.index(name)] for name in ("rows", "many", "open"))
    sequences = state["sequences"]
    if (rows < 0).any() or (rows >= MOST).any() or (rows != np.round(rows)).any() or (sequences < 0).any():
        yield "it holds rows below zero, or parts of rows"
    if (many < 0).any() or (many > rows).any() or (opened < rows).any():
        yield "its rows see fewer positions than there are rows"
    if (rows.sum(1) != sequences[..., SEQUENCE_SUMS.index("rows")]).any():
        yield "its sequences hold other rows than its slices"
    if "histogram" in state:
        yield _mistake_in_shape(state, "histogram", COUNTS, (h, len(EDGES) - 1))
        if (state["histogram"] < 0).any() or (state["histogram"] >= MOST).any():
            yield "histogram holds counts below zero or beyond any pass"
    known = ("slices.", "e", "scale", "sums", "sequences", "histogram")
    yield next((f"it holds {name!r:.80}" for name in state if not (name in known or name.startswith("slices."))), "")


def _mistake_in_pair(site: Site, outlines: Mapping[str, Outline]) -> str:
    """Why the keys or the attention rows of a layer do not fit its queries."""
    if not site.kind.endswith("query"):
        return ""
    before = site.kind.removesuffix("query")
    queries = outlines[site.label]
    keys, rows = (outlines.get(Site(site.stack, before + other, site.layer).label) for other in ("key", "attention"))
    if keys is not None and (keys.width != queries.width or queries.heads % keys.heads):
        return "its keys are of other heads than its queries"
    if keys is not None and before != "cross_" and keys.names != queries.names:
        return "its keys have other slices than its queries"
    if rows is not None and (rows.heads, rows.width) != (queries.heads, queries.width):
        return "its rows of attention are of other heads than its queries"
    return ""
