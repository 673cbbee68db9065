"""One process of a training of two, started by test_watch_ranks.py: `ranks_script.py SCENARIO RANK FOLDER`.

It writes what it trained and what it was told to `FOLDER/SCENARIO-RANK.pt`.
"""

import sys
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.watching import ranks
from isoscope.watching.probe import Probe
from tests.watching import watched
from tests.watching.watched import Network, batches, started

SCENARIO, RANK, FOLDER = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
SHARDED = SCENARIO.startswith("fsdp")


def make():
    """The model of this process, plain or as parts of it, and its optimiser."""
    model, _ = started(lambda: Network(noise=0))
    for block in model.blocks:
        block.centre.eval()  # its averages would differ between processes, and with them the model
    if SHARDED:
        mesh = init_device_mesh("cpu", (2,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        model = nn.parallel.DistributedDataParallel(model)
    return model, torch.optim.AdamW(model.parameters(), lr=3e-3)


def own_batches():
    """The batches on which this process trains."""
    return [batch[RANK * 4 : RANK * 4 + 4] for batch in batches(6)]


def whole(model):
    """Everything that was trained, put together."""
    state = getattr(model, "module", model).state_dict()
    return {name: value.full_tensor() if hasattr(value, "full_tensor") else value.clone() for name, value in state.items()}


def watching(model, optimizer, **more):
    probe = batches()[0]
    data = probe[:3] if RANK == 0 else probe[3:]
    data = probe if "same" in SCENARIO else data
    options = {"every": 2, "data": data, "out": FOLDER / SCENARIO, "optimizer": optimizer, "name": "net", "store": "all"} | more
    return isoscope.watch(model, **options)


def train_with_looks_in_between(model, optimizer, steps, watch=None):
    """The loop of `train`, but with the look of a step between its forward and its backward pass, and another before the optimiser's."""
    losses = []
    for i, ids in enumerate(steps):
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        optimizer.zero_grad()
        for at in (1, 2):
            if at == 2:
                loss.backward()
            if watch is not None:
                watch.step(step=2 * i + at)
        optimizer.step()
        losses.append(loss.item())
    return losses


def run():
    train = train_with_looks_in_between if "between" in SCENARIO else watched.train
    model, optimizer = make()
    losses = train(model, optimizer, own_batches())
    alone = whole(model)
    model, optimizer = make()
    norms, open_watches = {}, []
    if "bug" in SCENARIO and RANK == 1:
        look = Probe._reduce

        def failing(self, batch):
            look(self, batch)
            if [w.at for w in open_watches] == [4]:
                raise ZeroDivisionError("planted")

        Probe._reduce = failing
    with watching(model, optimizer) as watch:
        open_watches.append(watch)
        divided = [next(part.parameters()) for part in model.modules() if isinstance(part, FSDPModule)]
        assert all(type(parameter).__name__ == "DTensor" for parameter in divided)
        watched_losses = train(model, optimizer, own_batches(), watch)
        for kind in ("query", "key"):
            gradient = next(p.grad for name, p in model.named_parameters() if name.endswith(f"blocks.1.{kind}.weight"))
            norms[kind] = float((gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient).norm())
    return {
        "alone": alone,
        "watched": whole(model),
        "losses": (losses, watched_losses),
        "norms": norms,
        "warnings": watch.warnings,
        "shapes": {name: tuple(p.shape) for name, p in model.named_parameters()},
    }


def refused():
    """The two watch on other terms, or only rank 0 does: what each is told."""
    model, optimizer = make()
    given = [{"every": 2 + RANK}, {"data": [batches()[RANK]] * (1 + RANK)}, {"data": [batches()[0]]}]
    errors = []
    for options in given:
        if options is given[-1]:
            dist.barrier()
            if RANK == 1:
                break
            ranks.PATIENCE = timedelta(seconds=3)  # rank 1 never comes, however long rank 0 waits
        try:
            with watching(model, optimizer, **options):
                errors.append("none")
        except IsoscopeError as raised:
            errors.append(str(raised))
    dist.barrier()
    return {"errors": errors}


if __name__ == "__main__":
    dist.init_process_group("gloo", init_method=f"file://{FOLDER}/{SCENARIO}.rendezvous", rank=RANK, world_size=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = refused() if "refused" in SCENARIO else run()
    torch.save(result, FOLDER / f"{SCENARIO}-{RANK}.pt")
    dist.barrier()  # neither leaves while the other still talks to it
    dist.destroy_process_group()
