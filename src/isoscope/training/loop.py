"""The training loop.

A training can be killed at any moment; run again, it ends with the same weights, bit for bit. Three things make this possible. A batch is a
pure function of seed and step, so there is no generator to save. The saved state holds the moments of AdamW besides the weights. And torch
may only use deterministic algorithms.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from isoscope.core.errors import IsoscopeError
from isoscope.training.checkpoints import Checkpoints, Loss
from isoscope.training.data import Data
from isoscope.training.network import SmallConfig, SmallTransformer
from isoscope.training.recipe import Recipe

SAVE_EVERY = 60.0
"""Seconds between saved states. A killed training loses at most this much work."""
LOSS_EVERY = 10
"""Steps between entries in the list of losses; each checkpoint has one too."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
HELD_OUT_BATCHES = 4
HELD_OUT_SEED = 2**32
"""Stands in place of the training's seed, so that all trainings on the same data are judged by the same batches."""


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
) -> list[Loss]:
    """Train one seed, or resume its training, and write its checkpoints. Returns the losses; none if it was finished already.

    `stop` ends it after this many steps and keeps the state from which it resumes.
    """
    files = Checkpoints(suite, seed)
    network = new_network(recipe, data, seed)
    optimizer = new_optimizer(network, recipe)
    done, losses = files.resume(network, optimizer)  # done is -1 if there is no saved state
    if done < 0 and files.has_all(checkpoints):
        return []

    last = recipe.steps if stop is None else min(stop, recipe.steps)
    saved_at = time.monotonic()
    with deterministic_algorithms():
        if done < 0:
            files.write_checkpoint(0, network, data, DTYPES[dtype])
        for step in range(max(done, 0) + 1, last + 1):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(recipe, step)
            inputs, loss_of = data.batch(np.random.default_rng([seed, step]))
            loss = loss_of(network(**inputs).logits)
            if not torch.isfinite(loss):
                raise IsoscopeError(f"The loss is {loss.item()} at step {step}; lower --rate. Earlier checkpoints are kept.")
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()

            is_checkpoint = step in checkpoints
            if is_checkpoint or step % LOSS_EVERY == 0:
                losses.append(Loss(step, float(loss.detach()), held_out_loss(network, data) if is_checkpoint else math.nan))
            progress(step, float(loss.detach()))
            if is_checkpoint:
                files.write_checkpoint(step, network, data, DTYPES[dtype])
            if time.monotonic() - saved_at > SAVE_EVERY or step == last:
                files.save_state(step, network, optimizer, losses)
                saved_at = time.monotonic()
    if last == recipe.steps:
        files.delete_state()
    return losses


def new_network(recipe: Recipe, data: Data, seed: int) -> SmallTransformer:
    """A network at initialisation. Its weights depend only on sizes and seed, so that twins start with the same ones."""
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
    with torch.random.fork_rng(devices=[]):  # leaves the caller's generator as it was
        torch.manual_seed(seed)
        return SmallTransformer(config)


def new_optimizer(network: SmallTransformer, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW, with weight decay for matrices but not for biases and norms."""
    vectors, matrices = ([p for p in network.parameters() if (p.ndim > 1) is is_matrix] for is_matrix in (False, True))
    groups = [{"params": vectors, "weight_decay": 0.0}, {"params": matrices, "weight_decay": recipe.decay}]
    return torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.98), eps=1e-9)


def learning_rate(recipe: Recipe, step: int) -> float:
    """The learning rate at a step: it rises linearly for `warmup` steps and falls by a cosine to a tenth.

    >>> from isoscope.training.recipe import find_recipe
    >>> learning_rate(find_recipe("images"), 50), round(learning_rate(find_recipe("images"), 800), 6)
    (0.002, 0.0002)
    """
    warmup = min(1.0, step / max(recipe.warmup, 1))
    decay = max(0.0, step - recipe.warmup) / max(recipe.steps - recipe.warmup, 1)
    return recipe.rate * warmup * (0.55 + 0.45 * math.cos(math.pi * min(decay, 1.0)))


def held_out_loss(network: SmallTransformer, data: Data) -> float:
    """The mean loss on a few batches of items that are not trained on, always the same ones."""
    losses = []
    for i in range(HELD_OUT_BATCHES):
        inputs, loss_of = data.batch(np.random.default_rng([HELD_OUT_SEED, i]), held_out=True)
        with torch.no_grad():
            losses.append(float(loss_of(network(**inputs).logits)))
    return sum(losses) / len(losses)


@contextlib.contextmanager
def deterministic_algorithms() -> Iterator[None]:
    """Let torch use only deterministic algorithms, and restore the setting afterwards."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
