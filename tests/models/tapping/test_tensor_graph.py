"""The graph knows from which tensors a tensor derives, and holds one that rotary is about to overwrite."""

import gc

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from isoscope.models.tapping.lineage import trace_lineage
from isoscope.models.tapping.tensor_graph import TensorGraph
from isoscope.models.tapping.torch_functions import Role, TorchCall, role_of


class Recording(TorchFunctionMode):
    """Records every torch function in a graph, as the attention tap does."""

    def __init__(self):
        super().__init__()
        self.graph = TensorGraph()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        role, name = role_of(func)
        call = TorchCall(role, name, func, args, kwargs or {})
        if role is not Role.SKIP and call.writes:
            self.graph.copy_before_write(args[0])
        output = func(*args, **(kwargs or {}))
        if role is not Role.SKIP:
            self.graph.record_call(call, output)
        return output


def test_tensors_from_outside_are_numbered_as_they_enter_and_parameters_are_not():
    x, memory, weight = torch.randn(2, 3), torch.randn(2, 3), nn.Parameter(torch.randn(3, 3))
    with torch.no_grad(), Recording() as recording:
        query = x @ weight
        key = memory * 2
        both = query + key
    node_of = recording.graph.node_of
    assert [node_of(tensor).leaves for tensor in (x, memory, weight, query, key, both)] == [1, 2, 0, 1, 2, 3]
    assert node_of(both).first == 1
    assert node_of(weight).parameter
    assert [parent.index for parent in node_of(both).parents] == [node_of(query).index, node_of(key).index]


def test_a_function_that_returns_its_argument_adds_no_node():
    with Recording() as recording:
        x = torch.randn(2, 3) * 2
        before = recording.graph.node_of(x)
        assert x.contiguous() is x
    assert recording.graph.node_of(x) is before


def test_an_identity_that_is_used_again_is_not_the_dead_tensor_s():
    graph = TensorGraph()
    tensor = torch.randn(3)
    node = graph.node_of(tensor)
    other = torch.randn(3)
    graph._nodes[id(other)] = node  # as if `other` had been made at the address of a tensor that is gone
    assert graph.find_node(other) is None
    assert graph.find_node(tensor) is node


def test_rotary_in_place_leaves_the_tensor_before_it():
    """x · cos + rotate(x) · sin, written into x: the tensor before rotary is a copy from before the write."""
    source, cos, sin = torch.randn(1, 2, 4, 6), torch.rand(4, 6), torch.rand(4, 6)
    with Recording() as recording:
        recording.graph.node_of(source)  # the block's own input enters first
        x = source.exp()  # mixes features, as far as the graph knows: a projection
        expected = x.clone()
        first, second = x.chunk(2, -1)
        turned = torch.cat((-second, first), -1) * sin
        x.mul_(cos)
        query = x + turned
    del turned
    gc.collect()
    line = trace_lineage(recording.graph.node_of(query))
    assert torch.equal(line.tensor_before_rotary(), expected)
    assert not torch.equal(x, expected)


def test_without_rotary_nothing_is_held():
    with Recording() as recording:
        x = torch.randn(1, 4, 6).exp()
        y = x.view(1, 4, 2, 3).transpose(1, 2)
    line = trace_lineage(recording.graph.node_of(y))
    assert line.tensor_before_rotary() is None
    assert not recording.graph._held
    recording.graph.clear()
    assert recording.graph.find_node(y) is None
