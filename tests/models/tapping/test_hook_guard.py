"""An exception of our own hooks comes out of a forward pass as it is, whatever the model or `feed` made of it."""

import pytest
import torch
from torch import nn

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.statistics.moments import Moments


class Net(nn.Module):
    """Two blocks in a module that turns every failure of theirs into one of its own."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 16, batch_first=True) for _ in range(2))

    def forward(self, x):
        try:
            for block in self.blocks:
                x = block(x)
        except BaseException as error:
            raise RuntimeError("the model's own words") from error
        return x


def swallow(module, batch):
    """A `feed` that lets nothing out."""
    try:
        return module(batch)
    except BaseException:
        return None


@pytest.mark.parametrize("feed", [None, swallow])
def test_a_bug_in_a_hook_is_raised_as_it_is(feed, monkeypatch, tmp_path):
    def broken(self, *args, **kwargs):
        raise KeyError("planted here")

    monkeypatch.setattr(Moments, "add", broken)
    with pytest.raises(KeyError, match="planted here") as caught:
        isoscope.measure(Net(), [torch.randn(4, 5, 16)], out=tmp_path / "run", feed=feed, quiet=True)
    assert caught.traceback[-1].name == "broken"
    assert caught.value.__context__ is None


@pytest.mark.parametrize("feed", [None, swallow])
def test_a_refusal_of_the_tap_stays_one_sentence(feed, tmp_path):
    batch = torch.randn(4, 5, 16)
    batch[0, 0, 0] = torch.nan
    with pytest.raises(IsoscopeError, match="Net gives NaN or infinity at"):
        isoscope.measure(Net(), [batch], out=tmp_path / "run", feed=feed, quiet=True)


def test_an_exception_of_the_module_stays_its_own(tmp_path):
    with pytest.raises(RuntimeError, match="the model's own words"):
        isoscope.measure(Net(), [torch.randn(4, 5, 15)], out=tmp_path / "run", quiet=True)


def test_no_hook_is_left_after_a_bug(monkeypatch, tmp_path):
    net = Net()
    with monkeypatch.context() as patch:
        patch.setattr(Moments, "add", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            isoscope.measure(net, [torch.randn(4, 5, 16)], out=tmp_path / "run", quiet=True)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())
    assert isoscope.measure(net, [torch.randn(4, 5, 16)], out=tmp_path / "run", quiet=True).table()["n"].max() == 20
