"""Parameters that are divided among processes: which models are refused, and FSDP2 left as it was. One process is a group here."""

import contextlib

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.watching.sharded import check_shards, class_name, is_divided, keep_shards, sharding_modules
from tests.watching.watched import D, Network, batches


@pytest.fixture
def mesh(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def make_sharded(mesh):
    """A network of which both blocks, and the rest, are divided."""
    model = Network(noise=0)
    for part in (*model.blocks, model):
        fully_shard(part, mesh=mesh)
    return model


def test_parameters_divided_by_anything_but_fsdp2_are_refused(tmp_path, mesh):
    model = Network()
    model.head.weight = nn.Parameter(distribute_tensor(torch.zeros(40, D), mesh, [Shard(0)]))
    with pytest.raises(IsoscopeError, match="divided among processes by tensor parallelism, and only those of FSDP2"):
        isoscope.watch(model, data=batches()[0], out=tmp_path / "run")
    model = Network()
    model.head.weight.ds_id = 0
    with pytest.raises(IsoscopeError, match="divided among processes by ZeRO-3"):
        isoscope.watch(model, data=batches()[0], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_fsdp2_is_accepted_unless_it_divides_a_parameter_twice(mesh):
    check_shards(Network())
    model = make_sharded(mesh)
    check_shards(model)
    assert sharding_modules(model) == [model, *model.blocks]
    both = init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "tensor"))
    for placement, words in ((Replicate(), None), (Shard(0), "tensor parallelism")):
        model = nn.Sequential(nn.Linear(4, 4, bias=False))
        model[0].weight = nn.Parameter(distribute_tensor(torch.zeros(4, 4), both["tensor"], [placement]))
        fully_shard(model, mesh=both["data"])
        if words is None:
            check_shards(model)
        else:
            with pytest.raises(IsoscopeError, match=words):
                check_shards(model)


def test_a_class_keeps_its_name(mesh):
    model = make_sharded(mesh)
    assert type(model).__name__ == "FSDPNetwork"
    assert [class_name(part) for part in (model, model.blocks[0], model.head, Network())] == ["Network", "Block", "Linear", "Network"]


def test_what_was_divided_before_a_look_is_divided_after_it(mesh):
    """And what was whole, as between a forward and a backward pass, stays whole."""
    model, ids = make_sharded(mesh), batches()[0]
    model(ids)
    assert not is_divided(model.head.weight), "after a forward pass the outermost parameters are whole"
    with keep_shards(model):
        model(ids)
    assert not is_divided(model.head.weight)
    model.reshard()
    with contextlib.suppress(ZeroDivisionError), keep_shards(model):
        model(ids)
        assert not is_divided(model.head.weight)
        raise ZeroDivisionError  # a look that fails
    assert all(is_divided(parameter) for parameter in model.parameters())
