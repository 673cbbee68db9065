"""One pass: a saved state continues to the same numbers, or is refused, and no state stays in memory."""

import weakref

import pytest

import isoscope
from isoscope.measuring.model_feeder import ModelFeeder
from isoscope.measuring.options import Options
from isoscope.measuring.single_pass import Pass
from isoscope.measuring.task import cell_identity
from isoscope.models.naming.model_name import resolve_model
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import key_of
from isoscope.sources import open_source
from tests.measuring.test_measure import NUMBERS, equal
from tests.runs.packing import pack

STOPPED = {"batch_size": 1, "save_every": 0.0}


def stopped(folder, texts, windows, **others):
    """The key of a cell, its cursor after this many windows, and its statistics."""
    reference, source, chosen = resolve_model(folder), open_source(str(texts)), Options(**(STOPPED | others))
    feeder = ModelFeeder(reference, source, chosen)
    single_pass = Pass(feeder, chosen)
    single_pass.learn(feeder.probe())
    for _, window in zip(range(windows), feeder.windows(), strict=False):
        for batch in window:
            single_pass.reduce(batch)
    return key_of(cell_identity(reference, source, chosen)), feeder.cursor(), pack(single_pass.statistics)


def test_a_saved_state_goes_on_to_the_same_table(small_models, texts, tmp_path):
    """Stopped after any window: the state on disk and the cursor give the table of an uninterrupted pass, bit for bit."""
    folder = str(small_models("llama"))
    expected = isoscope.measure(folder, str(texts), tmp_path / "whole", quiet=True, **STOPPED).table(policy="every")
    for stop in (1, 4):
        run = Run(tmp_path / f"stopped{stop}")
        key, cursor, arrays = stopped(folder, texts, stop)
        run.save_partial(key, cursor, arrays.items)
        equal(
            expected,
            isoscope.measure(folder, str(texts), run.path, quiet=True, **STOPPED).table(policy="every"),
            rel=0,
            absolute=0,
            columns=NUMBERS,
        )
        assert not list((run.path / "partial").iterdir())


@pytest.mark.parametrize("damage", ["a bit", "cut", "not a count", "another word", "another model", "fewer points", "nothing"])
def test_a_state_that_is_not_of_this_cell_is_not_gone_on_from(small_models, texts, tmp_path, damage, capsys):
    """One that is not as it was written, and one that is and does not fit: the cell is measured from its start, to the same table."""
    folder = str(small_models("llama"))
    expected = isoscope.measure(folder, str(texts), tmp_path / "whole", quiet=True, **STOPPED).table(policy="every")
    key, cursor, arrays = stopped(folder, texts, 2)
    if damage == "another model":
        arrays = stopped(str(small_models("bert")), texts, 2)[2]
    elif damage == "fewer points":
        arrays = {name: array[:-1] if "sample.points" in name else array for name, array in arrays.items()}
    elif damage == "nothing":
        arrays = {}
    cursor |= {"not a count": {"items": "2"}, "another word": {"seen": 2}}.get(damage, {})
    run = Run(tmp_path / "run")
    run.save_partial(key, cursor, arrays.items)
    path = run.path / "partial" / f"{key}.safetensors"
    raw = path.read_bytes()
    assert run.load_partial(key) is not None or damage == "not a count"
    if damage == "a bit":
        path.write_bytes(raw[:-1000] + bytes([raw[-1000] ^ 1]) + raw[-999:])
    elif damage == "cut":
        path.write_bytes(raw[:-1000])
    if damage in ("a bit", "cut", "not a count"):
        assert run.load_partial(key) is None
    equal(expected, isoscope.measure(folder, str(texts), run.path, **STOPPED).table(policy="every"), rel=0, absolute=0, columns=NUMBERS)
    said = capsys.readouterr().err
    assert ("starting over" in said) == (damage in ("another word", "another model", "fewer points", "nothing"))
    assert not list((run.path / "partial").iterdir())


def test_no_state_outlives_its_batch(small_models, texts):
    """No state outlives its batch, but for the last one of a stack, and full statistics have a fixed size."""
    options = Options(batch_size=2, sample=16)
    feeder = ModelFeeder(resolve_model(str(small_models("bert"))), open_source(str(texts)), options)
    single_pass = Pass(feeder, options)
    single_pass.learn(feeder.probe())
    states, sizes, receive = [], [], single_pass.tap.receive

    def watch(site, state):
        states.append(weakref.ref(state))
        receive(site, state)

    single_pass.tap.receive = watch
    for window in feeder.windows():
        for batch in window:
            single_pass.reduce(batch)
            assert sum(state() is not None for state in states) <= 1
        sizes.append(sum(array.nbytes for kept in single_pass.statistics.values() for array in kept.state().values()))
    assert len(states) > 100
    assert len(sizes) > 2
    assert len(set(sizes)) == 1
