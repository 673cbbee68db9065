"""Claims about shape, on three models whose B, or whose range, lies at the threshold under every token policy."""

from __future__ import annotations

from functools import partial

import numpy as np

from isoscope.claims.evidence import BELL_HEIGHT, FLAT_RANGE
from isoscope.estimation.profile import Profile
from isoscope.metrics import bell, bell_linear, share_range, share_range_linear, top_share
from tests.claims.error_rates import Null
from tests.claims.made_rows import KINDS, Row
from tests.claims.nulls.shape import D, cloud, points, stack
from tests.claims.nulls.suites import THREE, is_decided

DOCUMENTS = 60
MIDDLE = np.array([0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0])


def linear(share: float) -> float:
    """The linear share of points one direction of which has this share and all others are alike."""
    return float(share**0.5 / (share**0.5 + (D - 1) * ((1 - share) / (D - 1)) ** 0.5))


def share_at(level: float) -> float:
    """The share whose linear form is this: σ₁ = c·σ with c = (d − 1)·level/(1 − level)."""
    squared = ((D - 1) * level / (1 - level)) ** 2
    return squared / (squared + D - 1)


def where(model: str, kind: str, policy: str, **more: object) -> Row:
    """The columns of a model's rows."""
    return KINDS[kind] | {"model": model, "revision": "r", "kind": "hidden", "policy": policy} | more


def profile_rows(rng: np.random.Generator, model: str, kind: str, profiles: tuple[Profile, ...], shares: np.ndarray) -> list[Row]:
    """Both forms with all tokens, and without the first of each document."""
    rows = []
    blocks = list(stack(rng, shares, DOCUMENTS, False))
    for policy in ("all", "body-no-sink"):
        kept = [(x, owner) if policy == "all" else (x[_later(owner)], owner[_later(owner)]) for x, owner in blocks]
        clouds = {i: cloud(*one) for i, one in enumerate(kept, 1)}
        rows += [where(model, kind, policy, metric=profile.name) | profile(clouds).as_dict() for profile in profiles]
    return rows


def _later(owner: np.ndarray) -> np.ndarray:
    return np.append(False, owner[1:] == owner[:-1])


def shapes_speak(rng: np.random.Generator, *, name: str, kind: str, profiles: tuple[Profile, ...], low: float, high: float) -> bool:
    """Whether a claim about shape is decided on three models with these shares at the ends and in the middle."""
    shares = low + (high - low) * MIDDLE
    return is_decided(name, [(profile_rows(rng, model, kind, profiles, shares), []) for model in THREE])


def final_rows(rng: np.random.Generator, model: str) -> list[Row]:
    """A decoder with a bell, and a final norm that lifts the last state until B after it lies at the threshold."""
    shares = 0.3 + 0.2 * MIDDLE
    blocks = list(stack(rng, shares, DOCUMENTS, False))
    clouds = {i: cloud(*one) for i, one in enumerate(blocks, 1)}
    owner = blocks[0][1]
    # The last sixth is two blocks: with the final state at 0.6 in place of 0.3 its mean is 0.45, and B is 0.05.
    share = 2 * (0.5 - BELL_HEIGHT) - 0.3
    scale = np.array([(share / (1 - share) * (D - 1)) ** 0.5] + [1.0] * (D - 1))
    last = blocks[-1][0] / np.array([(0.3 / 0.7 * (D - 1)) ** 0.5] + [1.0] * (D - 1))
    final = cloud((0.9 * last + (1 - 0.81) ** 0.5 * points(rng, owner)) * scale, owner)
    rows = [where(model, "decoder", "all", metric="bell") | bell(clouds).as_dict()]
    rows += [where(model, "decoder", "all", metric="top_share", layer=i) | top_share(one).as_dict() for i, one in clouds.items()]
    return [*rows, where(model, "decoder", "all", metric="top_share", layer=13) | {"kind": "final"} | top_share(final).as_dict()]


def final_speaks(rng: np.random.Generator) -> bool:
    """Whether the claim about the final norm is decided."""
    return is_decided("bell_survives_the_final_norm", [(final_rows(rng, model), []) for model in THREE])


BELLS, RANGES = (bell, bell_linear), (share_range, share_range_linear)
NULLS = [
    Null(
        "`decoders_are_bell_shaped`",
        f"3 decoders, B {BELL_HEIGHT:g} in the linear form and above it in the other, {DOCUMENTS} documents",
        partial(
            shapes_speak, name="decoders_are_bell_shaped", kind="decoder", profiles=BELLS, low=0.3, high=share_at(linear(0.3) + BELL_HEIGHT)
        ),
        100,
    ),
    Null(
        "`encoders_are_flat`",
        f"3 encoders, range {FLAT_RANGE:g} in one form and below it in the other, {DOCUMENTS} documents",
        partial(shapes_speak, name="encoders_are_flat", kind="token", profiles=RANGES, low=0.3, high=0.3 + FLAT_RANGE),
        60,
    ),
    Null("`bell_survives_the_final_norm`", f"3 decoders, B {BELL_HEIGHT:g} after the final norm, {DOCUMENTS} documents", final_speaks, 150),
]
