"""Several processes: one watches, the others are silent, and parameters that no process holds whole are refused."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

import isoscope
from isoscope.core.errors import IsoscopeError
from tests.watching.watched import D, Network, batches, started, train


@pytest.fixture
def rank(request, tmp_path):
    """This process as one of a group; of several, without the others."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if request.param == (0, 1):
        dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1)
    else:
        dist.init_process_group("fake", store=FakeStore(), rank=request.param[0], world_size=request.param[1])
    yield request.param[0]
    dist.destroy_process_group()


@pytest.mark.parametrize("rank", [(0, 1)], indirect=True)
def test_data_parallel_training_is_watched_out_of_its_wrapping(tmp_path, rank):
    def trained(watched):
        model, optimizer = started()
        parallel = nn.parallel.DistributedDataParallel(model)
        if not watched:
            train(parallel, optimizer, batches(4))
            return model.state_dict()
        with isoscope.watch(parallel, every=2, data=batches()[0], out=tmp_path / "run", optimizer=optimizer) as w:
            train(parallel, optimizer, batches(4), w)
        assert set(w.results().table()["model"]) == {"Network"}
        return model.state_dict()

    alone, ours = trained(False), trained(True)
    assert all(torch.equal(alone[name], ours[name]) for name in alone)


@pytest.mark.parametrize("rank", [(1, 2)], indirect=True)
def test_other_ranks_are_silent(tmp_path, rank):
    model, optimizer = started()
    with isoscope.watch(model, every=1, data=batches()[0], out=tmp_path / "run", optimizer=optimizer) as w:
        train(model, optimizer, batches(2), w)
        w.note(2, validation_loss=1.0)
    assert w.at == 2
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("rank", [(0, 2)], indirect=True)
def test_divided_parameters_are_refused(tmp_path, rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    model = Network()
    mesh = init_device_mesh("cpu", (2,))
    model.head.weight = nn.Parameter(distribute_tensor(torch.zeros(40, D), mesh, [Shard(0)], src_data_rank=None))
    with pytest.raises(IsoscopeError, match="parameters are divided among processes"):
        isoscope.watch(model, data=batches()[0], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
