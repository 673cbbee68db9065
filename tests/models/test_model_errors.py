"""An exception of our own hooks comes out of a forward pass as it is, whatever the model or `feed` made of it."""

import contextlib
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.models.model_errors import CANNOT_RUN, is_raised_by_us, model_errors_as_user_errors
from isoscope.models.naming.model_name import ModelReference
from isoscope.models.tapping.attention_tap import AttentionTap
from isoscope.models.tapping.channels import ChannelTrace
from isoscope.statistics.site_statistics import Moments


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


def from_torch():
    nn.Linear(3, 3)(torch.zeros(2, 4))


@pytest.mark.parametrize("mode", [contextlib.nullcontext, ChannelTrace, lambda: AttentionTap(lambda: ("encoder", 1), print)])
def test_what_torch_raises_for_the_model_is_the_model_s_under_every_tap(mode):
    with pytest.raises(RuntimeError, match="cannot be multiplied") as raised, mode():
        from_torch()
    assert not is_raised_by_us(raised.value)


def test_what_a_line_of_ours_raises_is_ours():
    with pytest.raises(AttributeError) as raised:
        Moments.add(None, None, None)
    assert is_raised_by_us(raised.value)


class SafetensorError(Exception):
    """As safetensors calls its own."""


class PanicException(BaseException):
    """As libraries written in Rust call theirs."""


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (pickle.UnpicklingError("Weights only load failed"), "mine holds a pickle that is more than weights; it was not opened"),
        (ImportError("No module named 'mamba'\nmore"), "mine needs a package that is not installed: No module named 'mamba'."),
        (
            ValueError("set trust_remote_code=True"),
            "mine brings its own code; .* use --trust-remote-code 'a b'.",
        ),
        (SafetensorError("header too large"), r"The weights of mine are damaged \(header too large\)"),
        (KeyError("hidden:\nthe reason\nmore"), "mine cannot be run: 'hidden"),
        (RuntimeError("Error in loading:\n size mismatch\n more"), "mine cannot be run: Error in loading: size mismatch."),
        (PanicException("index out of bounds"), "mine cannot be run: index out of bounds."),
    ],
)
def test_the_failure_of_a_library_becomes_one_sentence(error, sentence):
    def library():
        raise error

    reference = ModelReference("mine", "untrained:a b", Path(), None, False, "", "")
    with pytest.raises(IsoscopeError, match=sentence) as raised, model_errors_as_user_errors(reference, CANNOT_RUN):
        library()
    assert raised.value.__cause__ is error


def test_a_user_error_and_an_interrupt_pass_as_they_are():
    reference = ModelReference("mine", "mine", Path(), None, False, "", "")
    for error in (IsoscopeError("as it is"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as raised, model_errors_as_user_errors(reference):
            raise error
        assert raised.value is error
