"""The training loop."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from isoscope.core.errors import IsoscopeError
from isoscope.training.checkpoints import Checkpoints
from isoscope.training.data import Data
from isoscope.training.network import SmallConfig, SmallTransformer
from isoscope.training.recipe import Recipe

SAVE_EVERY = 60.0
"""Seconds between states from which a training goes on."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
HELD_OUT_BATCHES = 4


def network_for(recipe: Recipe, data: Data, seed: int) -> SmallTransformer:
    """A network at initialisation. Its weights depend on sizes and seed alone, so that twins begin alike."""
    config = SmallConfig(
        modality=recipe.modality,
        causal=recipe.causal,
        norm=recipe.norm,
        rotary=recipe.rotary,
        hidden_size=recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        intermediate_size=recipe.expansion * recipe.width,
        architectures=[SmallTransformer.__name__],
        **data.config,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SmallTransformer(config)


def rate_at(recipe: Recipe, step: int) -> float:
    """The learning rate: it rises for `warmup` steps and falls by a cosine to a tenth.

    >>> from isoscope.training.recipe import recipe
    >>> rate_at(recipe("images"), 50), round(rate_at(recipe("images"), 800), 6)
    (0.002, 0.0002)
    """
    rising = min(1.0, step / max(recipe.warmup, 1))
    part = max(0.0, step - recipe.warmup) / max(recipe.steps - recipe.warmup, 1)
    return recipe.rate * rising * (0.55 + 0.45 * math.cos(math.pi * min(part, 1.0)))


def train(
    recipe: Recipe,
    data: Data,
    suite: Path,
    seed: int,
    checkpoints: list[int],
    *,
    stop: int | None = None,
    dtype: str = "float32",
    progress: Callable[[int, float], None] = lambda step, loss: None,
) -> list[tuple[int, float, float]]:
    """Train one seed and write its checkpoints; go on where it stopped. The losses, by step: of the batch, and of what was held out.

    `stop` ends it early, after so many steps, leaving the state from which it goes on.
    """
    kept = Checkpoints(suite, seed)
    network = network_for(recipe, data, seed)
    plain, decayed = ([p for p in network.parameters() if (p.ndim > 1) is wide] for wide in (False, True))
    groups = [{"params": plain, "weight_decay": 0.0}, {"params": decayed, "weight_decay": recipe.decay}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.98), eps=1e-9)
    done, losses = kept.resume(network, optimizer)
    if all(kept.step(step).exists() for step in checkpoints) and done < 0:
        return []
    last, saved = recipe.steps if stop is None else min(stop, recipe.steps), time.monotonic()
    with _deterministic():
        if done < 0:
            kept.write(0, network, data, DTYPES[dtype])
        for step in range(max(done, 0) + 1, last + 1):
            loss = _step(network, optimizer, recipe, data, seed, step)
            due = step in checkpoints
            if due or step % 10 == 0:
                losses.append((step, loss, _held_out(network, data) if due else math.nan))
            progress(step, loss)
            if due:
                kept.write(step, network, data, DTYPES[dtype])
            if time.monotonic() - saved > SAVE_EVERY or step == last:
                kept.save(step, network, optimizer, losses)
                saved = time.monotonic()
    if last == recipe.steps:
        kept.finish()
    return losses


def _step(network: SmallTransformer, optimizer: torch.optim.Optimizer, recipe: Recipe, data: Data, seed: int, step: int) -> float:
    for group in optimizer.param_groups:
        group["lr"] = rate_at(recipe, step)
    arguments, loss_of = data.batch(np.random.default_rng([seed, step]))
    loss = loss_of(network(**arguments).logits)
    if not torch.isfinite(loss):
        raise IsoscopeError(f"The loss is {loss.item()} at step {step}; lower --rate. Earlier checkpoints are kept.")
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())


def _held_out(network: SmallTransformer, data: Data) -> float:
    """The mean loss of a few batches of what is not trained on, always the same ones."""
    found = []
    for i in range(HELD_OUT_BATCHES):
        arguments, loss_of = data.batch(np.random.default_rng([2**32, i]), held_out=True)
        with torch.no_grad():
            found.append(float(loss_of(network(**arguments).logits)))
    return sum(found) / len(found)


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
