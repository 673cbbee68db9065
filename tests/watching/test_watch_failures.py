"""After the first look nothing that goes wrong in one ends or changes a training, and a bug still looks like a bug."""

import random

import numpy as np
import pytest
import torch

import isoscope
from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.models.tapping.tap import Tap
from isoscope.runs.run import Run
from isoscope.statistics.site_statistics import Moments
from isoscope.watching import watch as watch_module
from isoscope.watching.probe import Probe
from tests.watching.watched import Network, batches, failing, started, train, warned

ERRORS = [RuntimeError("planted"), MemoryError("planted"), OSError(28, "planted"), TypeError("planted"), torch.OutOfMemoryError("planted")]


def state_of_process():
    chance = torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
    return chance, modes, torch.backends.mha.get_fastpath_enabled(), len(torch.overrides._get_current_function_mode_stack())


def state_of_module(model):
    hooks = [[list(held) for name, held in vars(part).items() if name.endswith("hooks")] for part in model.modules()]
    flags = [part.training for part in model.modules()]
    buffers = [(id(buffer), buffer._version, buffer.tolist()) for buffer in model.buffers()]
    return hooks, flags, buffers


@pytest.fixture(scope="module")
def unwatched():
    model, optimizer = started()
    return train(model, optimizer, batches(5)), model.state_dict()


def is_unwatched(model, losses, unwatched):
    alone = unwatched[1]
    return losses == unwatched[0] and all(torch.equal(value, alone[name]) for name, value in model.state_dict().items())


PARTS = {
    "the tap": (Tap, "_deliver"),
    "a statistic": (Moments, "add"),
    "a whole look": (Probe, "look"),
    "packing": (Probe, "_describe"),
    "handing over": (watch_module.NumbersProcess, "submit"),
    "gradients": (watch_module, "gradient_norms"),
}
"""Of the training's process; those of the other one are in test_look_writer.py."""


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("error", ERRORS[:3], ids=lambda error: type(error).__name__)
def test_a_bug_in_a_later_look_is_reported_with_its_traceback_and_the_training_is_the_same(tmp_path, monkeypatch, unwatched, part, error):
    model, optimizer = started()
    with warned() as told, isoscope.watch(model, every=2, data=batches()[0], out=tmp_path / "run", optimizer=optimizer) as w:
        losses = train(model, optimizer, batches(5)[:1], w)
        with monkeypatch.context() as patch:
            patch.setattr(*PARTS[part], failing(error))
            before = state_of_module(model)[0]
            losses += train(model, optimizer, batches(5)[1:2], w)
            assert state_of_module(model)[0] == before
        losses += train(model, optimizer, batches(5)[2:], w)
    assert is_unwatched(model, losses, unwatched)
    assert len(told) == len(set(told)) >= 1
    assert w.warnings == told
    for said in told:
        assert f"{type(error).__name__}: {error}" in said
        assert "the training continues" in said
        assert "Traceback (most recent call last)" in said
        assert "in act\n" in said  # the line that failed
    assert set(w.results().table("mean_cosine")["step"]) >= {0, 4, 5}
    kept = [cell.manifest["spec"].get("failures", []) for cell in Run(tmp_path / "run").cells()]
    assert {one["words"] for failures in kept for one in failures} >= set(told)


@pytest.mark.parametrize("error", [*ERRORS, IsoscopeError("planted")], ids=lambda error: type(error).__name__)
def test_a_look_that_fails_in_the_middle_of_the_forward_pass_leaves_everything(tmp_path, unwatched, error):
    model, optimizer = started()
    broken = []

    def feed(module, ids):
        handle = module.blocks[1].register_forward_pre_hook(failing(error)) if broken else None
        try:
            return module(ids)
        finally:
            if handle is not None:
                handle.remove()

    with isoscope.watch(model, every=1, data=batches()[0], out=tmp_path / "run", feed=feed) as w:
        losses = train(model, optimizer, batches(5)[:2], w)
        broken.append(True)
        before = state_of_process(), state_of_module(model)
        with pytest.warns(IsoscopeWarning, match="planted"):
            w.step(step=3)
        assert (state_of_process(), state_of_module(model)) == before
        w.at = 2
        broken.clear()
        losses += train(model, optimizer, batches(5)[2:], w)
    assert is_unwatched(model, losses, unwatched)
    assert max(w.results().table("mean_cosine")["step"]) == 5


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_logger_that_fails_is_reported_and_the_others_get_their_numbers(tmp_path, unwatched, error):
    class Failing:
        count = 0

        def log(self, step, values):
            self.count += 1
            if self.count > 1:
                torch.rand(3)
                raise error

        def close(self):
            raise error

    class Kept(dict):
        closed = False

        def log(self, step, values):
            self[step] = values

        def close(self):
            self.closed = True

    model, optimizer = started()
    kept = Kept()
    with warned() as told, isoscope.watch(model, every=2, data=batches()[0], out=tmp_path / "run", log=[Failing(), kept]) as w:
        losses = train(model, optimizer, batches(5), w)
        w.note(5, validation_loss=1.0)
    assert is_unwatched(model, losses, unwatched)
    assert [words.partition(" (")[0] for words in told] == ["Failing did not take step 2", "Failing was not closed"]
    assert all("Traceback (most recent call last)" in words for words in told)
    assert kept.closed
    assert sorted(kept) == [0, 2, 4, 5]
    assert set(w.results().table("mean_cosine")["step"]) == {0, 2, 4, 5}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=lambda error: type(error).__name__)
def test_an_interrupt_is_not_swallowed_and_leaves_the_module_as_it_was(tmp_path, monkeypatch, error):
    model, optimizer = started()
    with isoscope.watch(model, every=1, data=batches()[0], out=tmp_path / "run", optimizer=optimizer) as w:
        train(model, optimizer, batches(1), w)
        before = state_of_process(), state_of_module(model)
        monkeypatch.setattr(Moments, "add", failing(error))
        with pytest.raises(type(error)):
            w.step()
        monkeypatch.undo()
        assert (state_of_process(), state_of_module(model)) == before
    assert not optimizer._optimizer_step_pre_hooks


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_bug_in_the_first_look_is_raised_as_it_is(tmp_path, monkeypatch, error):
    model, optimizer = started()
    before = state_of_process(), state_of_module(model)
    monkeypatch.setattr(Moments, "add", failing(error))
    with pytest.raises(type(error), match="planted"), isoscope.watch(model, data=batches()[0], out=tmp_path / "run", optimizer=optimizer):
        pass
    assert (state_of_process(), state_of_module(model)) == before
    assert not optimizer._optimizer_step_pre_hooks


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda w: w.step(loss=torch.zeros(3)), "The numbers of the training at step 1 were not kept"),
        (lambda w: w.step(step="one"), "The call of step after step 0 was not understood"),
        (lambda w: w.note(1, accuracy="high"), "The numbers accuracy of step 1 were not kept"),
        (lambda w: w.before_step(optimizer=3), "Gradients and learning rate of step 1 were not read"),
    ],
)
def test_arguments_that_make_no_sense_are_reported_and_not_raised(tmp_path, call, words):
    with isoscope.watch(Network(), every=1, data=batches()[0], out=tmp_path / "run") as w:
        with pytest.warns(IsoscopeWarning, match=words):
            call(w)
        w.step(step=np.int64(7))
    assert max(w.results().table("mean_cosine")["step"]) == 7
