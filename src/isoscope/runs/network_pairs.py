"""Which networks of two runs are compared with each other. Nothing here needs torch."""

from __future__ import annotations

from typing import Any

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.runs.results import Results

Network = tuple[str, int | None, int | None]
"""Model, step and seed."""


def network_of(manifest: dict[str, Any]) -> Network:
    """The network that a cell measured."""
    columns = manifest["columns"]
    return str(columns["model"]), columns.get("step"), columns.get("seed")


def name_network(network: Network) -> str:
    """The name of a network, with its step and seed."""
    model, step, seed = network
    return " · ".join([model, *(f"{word} {value}" for word, value in (("step", step), ("seed", seed)) if value is not None)])


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
