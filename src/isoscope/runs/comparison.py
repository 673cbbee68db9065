"""Compare two runs: which numbers differ, by how much, and in which layers. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.number import THIS_N, Number, same_n
from isoscope.core.site import Site
from isoscope.core.wording import format_count, format_list
from isoscope.estimation.inference import holm
from isoscope.estimation.metric import OVER_D, AnyCloud, Metric, split_over_d
from isoscope.estimation.paired_difference import BARE, Difference, difference
from isoscope.estimation.site_clouds import Clouds
from isoscope.metrics import registry
from isoscope.runs.result_views import name_network
from isoscope.runs.results import Results
from isoscope.statistics.any_statistics import Statistics

METRICS = ("between_cosine", "top_share", "effective_rank/d")
"""The metrics that are compared by default, all on a scale from 0 to 1."""
PLACE = ["stack", "kind", "layer"]
VALUES = ["a", "b", "difference", "low", "high", "least", "p", "how"]
ROW = ["model_a", "model_b", *PLACE, "policy", "metric", *VALUES]
SETTINGS = (
    "data",
    "documents",
    "tokens",
    "seq_len",
    "special_tokens",
    "dtype",
    "sample",
    "seed",
    "shard",
    "isoscope",
    "torch",
    "transformers",
    "numpy",
)
"""The settings of a cell, apart from the model, that may change a number."""
LEVEL = 0.05
Place = tuple[str, str, int | None]
Network = tuple[str, int | None, int | None]
"""Model, step and seed."""


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`.

    `rows`: one per difference. `sentences`: one per metric and pair of models. `differ`: settings that are not the same. `refused`: one
    sentence per metric that depends on n, if the runs have different n.
    """

    rows: pd.DataFrame
    sentences: list[str]
    differ: dict[str, tuple[str, str]]
    refused: list[str]

    def rows_beyond(self, limit: float) -> pd.DataFrame:
        """The rows whose difference is certainly larger than this in size: the whole interval lies beyond it."""
        return self.rows[self.rows["least"] > limit]


def compare(
    a: Results, b: Results, *, metric: list[str] | None = None, policy: str = "all", models: dict[str, str] | None = None
) -> Comparison:
    """The differences b − a of all rows that two runs have in common.

    Args:
        a: the run to compare with.
        b: the run whose change is asked for.
        metric: names of metrics; `NAME/d` divides one by its dimension. `METRICS` by default.
        policy: the token policy.
        models: {name in a: name in b}; `NAME@STEP` names one step of a training. By default models of the same name, or the only ones.
    """
    wanted = [_parse_metric(name) for name in metric or METRICS]
    names = [entry.name for entry, _ in wanted]
    tables = [run.table(names, policy) for run in (a, b)]
    differences: list[dict[str, Any]] = []
    refused: list[str] = []
    differ: dict[str, tuple[str, str]] = {}
    for first, second in pair_networks(a, b, models or {}):
        sides = [_Side(run, table, network) for run, table, network in zip((a, b), tables, (first, second), strict=True)]
        differ |= _different_settings(sides[0].spec, sides[1].spec)
        differences += _differences(sides[0], sides[1], wanted, policy)
        refused += _refusals(sides[0], sides[1], wanted)
    if not differences and not refused:
        raise IsoscopeError(
            f"The runs have no row of {', '.join(dict.fromkeys(names))} in common; compare stacks of the same name and kind."
        )
    rows = _test_differences(pd.DataFrame(differences, columns=ROW))
    return Comparison(rows, list(_sentences(rows)), differ, refused)


class _Side:
    """One network of one run."""

    def __init__(self, run: Results, table: pd.DataFrame, network: Network) -> None:
        self.network, self.name = network, name_network(dict(zip(("model", "step", "seed"), network, strict=True)))
        manifests = [m for m in run.manifests() if network_of(m) == network and "experiment" not in m["identity"]]
        if len(manifests) > 1:
            raise IsoscopeError(
                f"{run.path} holds {len(manifests)} measurements of {self.name}; each must hold one: give the other an --out of its own."
            )
        self.spec: dict[str, Any] = manifests[0]["spec"]
        model, step, seed = network
        chosen = (table["model"] == model) & table["head"].isna()
        for column, value in (("step", step), ("seed", seed)):
            chosen &= table[column].isna() if value is None else table[column].eq(value).fillna(False)
        self.rows = {
            (row["stack"], row["kind"], None if pd.isna(row["layer"]) else int(row["layer"]), row["metric"]): row
            for row in table[chosen].to_dict("records")
        }
        self.statistics: Statistics = run.statistics(model, step, seed) if manifests[0]["keep"] != "rows" else {}
        self._clouds = Clouds(self.statistics)

    def cloud(self, place: Place, policy: str) -> AnyCloud | None:
        """The cloud of all heads together behind a row, where the run kept it."""
        site = Site(*place)
        return next((cloud for head, cloud in self._clouds.of(site, policy) if head is None), None) if site in self.statistics else None


def _differences(a: _Side, b: _Side, wanted: list[tuple[Metric, bool]], policy: str) -> Iterator[dict[str, Any]]:
    """Every row that both have."""
    # Differences are paired by document, which needs the same documents in both runs: equal fingerprints.
    same_source = a.spec.get("fingerprint") is not None and a.spec.get("fingerprint") == b.spec.get("fingerprint")
    # Place by place, and not metric by metric, so that memory never holds more than two clouds.
    places = dict.fromkeys(key[:3] for key in a.rows)
    for place in sorted(places, key=lambda place: Site(*place).order):
        clouds = tuple(side.cloud(place, policy) for side in (a, b)) if same_source else (None, None)
        both = (clouds[0], clouds[1]) if clouds[0] is not None and clouds[1] is not None else None
        for entry, over_d in wanted:
            if (*place, entry.name) not in a.rows or (*place, entry.name) not in b.rows:
                continue
            if _different_n(a, b, place, entry) is not None:
                continue
            numbers = [_read_number(side.rows[*place, entry.name]) for side in (a, b)]
            scale = (1 / numbers[0].d, 1 / numbers[1].d) if over_d else (1.0, 1.0)
            values = [float(x) * s for x, s in zip(numbers, scale, strict=True)]
            yield _make_row(
                a, b, place, policy, entry.name + OVER_D * over_d, values, difference(entry, numbers[0], numbers[1], both, scale)
            )


def _different_n(a: _Side, b: _Side, place: Place, entry: Metric) -> tuple[int, int] | None:
    """Both n of a row whose value depends on n, if they are different."""
    n = [side.rows[*place, entry.name]["n"] for side in (a, b)]
    if entry.interval_about != THIS_N or any(pd.isna(x) for x in n) or same_n(*n):
        return None
    return int(n[0]), int(n[1])


def _refusals(a: _Side, b: _Side, wanted: list[tuple[Metric, bool]]) -> Iterator[str]:
    """One sentence per metric that is not compared somewhere because n differs."""
    for entry, over_d in wanted:
        places = [key[:3] for key in a.rows if key[3] == entry.name and key in b.rows]
        different = {place: n for place in places if (n := _different_n(a, b, place, entry)) is not None}
        if not different:
            continue
        n = next(iter(different.values()))
        where = "" if len(different) == len(places) else f" in {len(different)} of {len(places)} places"
        by_tokens = a.spec.get("counted", "tokens") == "tokens"
        advice = f"measure both with --max-tokens {min(n)}" if by_tokens else "measure both on as many items"
        names = f"{a.name}: " if a.name == b.name else f"{a.name} → {b.name}: "
        yield (
            f"{names}{entry.name}{OVER_D * over_d} is not compared{where}: n differs ({n[0]:,} and {n[1]:,}) and this metric depends on n; "
            f"{advice}."
        )


def _make_row(a: _Side, b: _Side, place: Place, policy: str, metric: str, values: list[float], change: Difference) -> dict[str, Any]:
    where = {"model_a": a.name, "model_b": b.name} | dict(zip(PLACE, place, strict=True)) | {"policy": policy, "metric": metric}
    numbers = (*values, change.value, change.low, change.high, change.least, change.p, change.how)
    return where | dict(zip(VALUES, numbers, strict=True))


def _read_number(row: dict[Any, Any]) -> Number:
    return Number(
        row["value"], n=0 if pd.isna(row["n"]) else row["n"], d=1 if pd.isna(row["d"]) else row["d"], low=row["low"], high=row["high"]
    )


def _test_differences(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with Holm's p over the places of one metric and pair of models, and whether a place moved."""
    rows = rows[rows["difference"].notna()].astype({"layer": "Int64"}).reset_index(drop=True)
    rows["adjusted_p"] = np.nan
    # One sentence covers the places of one metric and pair of models, so these are the tests that Holm's method adjusts for.
    for _, own in rows.groupby(["model_a", "model_b", "metric"], sort=False):
        rows.loc[own.index, "adjusted_p"] = holm(own["p"].to_numpy(float))
    rows["moved"] = rows["adjusted_p"] < LEVEL
    return rows


def _sentences(rows: pd.DataFrame) -> Iterator[str]:
    """What moved, in words: one sentence per pair of models and metric, or one for a pair that does not differ at all."""
    several = rows.groupby(["model_a", "model_b"]).ngroups > 1
    for (first, second), of_pair in rows.groupby(["model_a", "model_b"], sort=False):
        names = f"{first}: " if first == second else f"{first} → {second}: "
        names = names if several or first != second else ""
        if not of_pair["difference"].any():
            count = format_count(len(of_pair), "number is the same", "numbers are the same")
            yield f"{names}{'i' if names else 'I'}dentical; {count} ({format_list(of_pair['metric'].unique())})."
            continue
        for metric, own in of_pair.groupby("metric", sort=False):
            yield f"{names}{metric} {_describe_change(own.to_dict('records'))}."


def _describe_change(rows: list[dict[Any, Any]]) -> str:
    """How a metric changed over its places, as the rest of a sentence that begins with its name."""
    known = [row for row in rows if row["how"] != BARE]
    if not any(row["difference"] for row in rows):
        return f"is the same in all of {len(rows)} places"
    if not known:
        largest = max(rows, key=_size)
        return f"has no interval in these runs; its largest difference is {largest['difference']:+.3g} {_describe_place(largest)}"
    moved = [row for row in known if row["moved"]]
    if not moved:
        return f"moved nowhere that can be told from chance ({len(known)} places)"
    parts = []
    for word, sign in (("rose", 1), ("fell", -1)):
        side = [row for row in moved if sign * row["difference"] > 0]
        if side:
            row = max(side, key=_size)
            low, high = sorted(sign * row[end] for end in ("low", "high"))
            amount = f"by {_size(row):.3g} [{low:.3g}, {high:.3g}]"
            parts.append(f"{word} {amount} {_describe_place(row)}" if len(side) == 1 else f"{word} most {_describe_place(row)}, {amount}")
    return f"{' and '.join(parts)}; {len(moved)} of {len(known)} places moved"


def _size(row: dict[Any, Any]) -> float:
    return abs(float(row["difference"]))


def _describe_place(row: dict[Any, Any]) -> str:
    """A place in words."""
    stack = f" of the {row['stack']}"
    if row["kind"] == "hidden":
        return f"in layer {row['layer']}{stack}"
    if row["kind"] == "final":
        return f"after the final norm{stack}"
    return f"in the {str(row['kind']).replace('_', ' ')}" + (f" of layer {row['layer']}" if not pd.isna(row["layer"]) else "")


def _parse_metric(name: str) -> tuple[Metric, bool]:
    """The metric of a name, and whether to divide it by the dimension."""
    plain, over_d = split_over_d(name)
    entry = registry[plain]
    if not isinstance(entry, Metric):
        raise IsoscopeError(f"{plain} is not a number of one place; `isoscope compare` takes metrics, see `isoscope list metrics`.")
    return entry, over_d


def _different_settings(a: dict[str, Any], b: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """The settings, apart from the model, that are not the same."""
    names = [name for name in SETTINGS if name in a or name in b]
    if a.get("fingerprint") != b.get("fingerprint") and a.get("data") == b.get("data"):
        names.append("fingerprint")
    return {name: (str(a.get(name)), str(b.get(name))) for name in names if a.get(name) != b.get(name)}


def network_of(manifest: dict[str, Any]) -> Network:
    """The network that a cell measured."""
    columns = manifest["columns"]
    return str(columns["model"]), columns.get("step"), columns.get("seed")


def pair_networks(a: Results, b: Results, models: dict[str, str]) -> list[tuple[Network, Network]]:
    """Which network of one run is compared with which of the other; `models` as in `compare`."""
    networks_a, networks_b = _networks_by_model(a), _networks_by_model(b)
    pairs = []
    for first, second in (models or _pair_models(networks_a, networks_b, a, b)).items():
        in_a, in_b = _find_networks(first, networks_a, a), _find_networks(second, networks_b, b)
        if len(in_a) == len(in_b) == 1:
            pairs.append((in_a[0], in_b[0]))
            continue
        # Networks with the same step and seed are paired. If each side has one step only, as with NAME@STEP, the seed is enough.
        one_step = len({step for _, step, _ in in_a}) == len({step for _, step, _ in in_b}) == 1
        by_place = {network[1 + one_step :]: network for network in in_b}
        common = [(network, by_place[network[1 + one_step :]]) for network in in_a if network[1 + one_step :] in by_place]
        if not common:
            raise IsoscopeError(f"The runs have no step and seed of {first} and {second} in common; name the steps as NAME@STEP.")
        pairs += common
    return pairs


def _networks_by_model(run: Results) -> dict[str, list[Network]]:
    """The measured networks of a run, each once, by model."""
    networks = dict.fromkeys(network_of(manifest) for manifest in run.manifests() if "experiment" not in manifest["identity"])
    if not networks:
        raise IsoscopeError(f"{run.path} holds no measured model; `isoscope compare` takes two runs of `isoscope measure` or `sweep`.")
    by_model: dict[str, list[Network]] = {}
    for network in networks:
        by_model.setdefault(network[0], []).append(network)
    return by_model


def _find_networks(name: str, held: dict[str, list[Network]], run: Results) -> list[Network]:
    """The networks of a run that `NAME` or `NAME@STEP` means."""
    if name in held:
        return held[name]
    model, _, step = name.rpartition("@")
    if model in held and step.isdecimal():
        steps = [network[1] for network in held[model]]
        if int(step) in steps:
            return [network for network in held[model] if network[1] == int(step)]
        raise IsoscopeError(f"{run.path} holds {model} at the steps {', '.join(map(str, dict.fromkeys(steps)))}; got {step}.")
    raise IsoscopeError(f"{run.path} does not hold {name!r}{nearest(name, list(held)) or '; it holds ' + ', '.join(held) + '.'}")


def _pair_models(a: dict[str, list[Network]], b: dict[str, list[Network]], run_a: Results, run_b: Results) -> dict[str, str]:
    """The names of the models that are compared: the only ones, or those of the same name."""
    if len(a) == len(b) == 1:
        return {next(iter(a)): next(iter(b))}
    if common := {name: name for name in a if name in b}:
        return common
    raise IsoscopeError(
        f"The runs have no model in common: {run_a.path} holds {', '.join(a)}, and {run_b.path} holds {', '.join(b)}; "
        "say which to compare with --model NAME_A=NAME_B."
    )
