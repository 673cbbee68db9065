"""What `verify` finds in a run, by the files that were changed; `tests/cli/test_verify.py` asks the command."""

import pytest

from isoscope.runs.run import Run
from isoscope.runs.verify import cells_in, is_run, size_of, verify
from tests.runs.made_cells import KEY, write_version


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path / "run")
    write_version(run, 1)
    return run


def faults_of(run):
    return [(fault.path.removeprefix(f"{run.path}/"), fault.kind, fault.wrong) for fault in verify(run.path)]


def test_every_byte_of_a_sound_run_is_read_once(run):
    read = []
    manifest, *files = sorted((run.path / "cells" / KEY).iterdir())
    assert list(verify(run.path, read.append)) == []
    assert sum(read) == sum(path.stat().st_size for path in files)
    assert size_of(run.path) == sum(read) + manifest.stat().st_size
    assert cells_in(run.path) == [run.path / "cells" / KEY]
    assert (is_run(run.path), is_run(run.path / "cells")) == (True, False)


@pytest.mark.parametrize("name", ["rows.parquet", "series.parquet", "statistics.safetensors"])
def test_a_changed_byte_and_a_missing_byte_are_told_apart(run, name):
    file = next((run.path / "cells" / KEY).glob(f"{name.partition('.')[0]}*"))
    where = str(file.relative_to(run.path))
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)
    assert faults_of(run) == [(where, "content", True)]
    file.write_bytes(raw[:-1])
    assert faults_of(run) == [(where, "size", True)]
    file.unlink()
    assert faults_of(run) == [(where, "missing", True)]


def test_states_of_unfinished_cells_are_no_faults(run):
    for key in ("unfinished", "damaged", KEY):
        run.save_partial(key, {"items": 5}, {}.items)
    with (run.path / "partial" / "damaged.safetensors").open("ab") as file:
        file.write(b"x")
    assert faults_of(run) == [
        (f"partial/{KEY}.safetensors", "leftover", False),
        ("partial/damaged.safetensors", "leftover", False),
        ("partial/unfinished.safetensors", "partial", False),
    ]
