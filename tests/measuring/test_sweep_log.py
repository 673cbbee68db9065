"""The ledger of a sweep: lines are only added, what was cut off is ignored, and the summary holds every suite of the run."""

import json

from isoscope.measuring.sweep_log import Ledger, stamp_of
from isoscope.models.naming.audit import CheckpointRecord
from isoscope.models.naming.suite import Checkpoint, Suite


def test_two_ledgers_of_one_run_lose_nothing_of_each_other(tmp_path):
    suite = Suite("net", tuple(Checkpoint(f"net@{step}", step, None) for step in range(20)))
    one, two = Ledger(tmp_path), Ledger(tmp_path)
    for step, checkpoint in enumerate(suite.checkpoints):
        (one if step % 2 else two).record(suite, checkpoint, f"r{step}", CheckpointRecord(None, step, "t", "m"))
        (two if step % 3 else one).claim(checkpoint.spec)
    with (tmp_path / "audit.jsonl").open("a") as file:
        file.write('{"suite": "net", "place": "-/3", "se')  # killed while it wrote
    two.release("net@4")
    assert [seen.step for seen in Ledger(tmp_path).records(suite)] == list(range(20))
    assert one.revision(suite, suite.checkpoints[8]) == "r8"
    assert not one.is_claimed("net@4")
    assert one.is_claimed("net@5")
    one.record_faults(suite, ["a fault."])
    kept = json.loads((tmp_path / "audit.json").read_text())
    assert len(kept["suites"]["net"]["checkpoints"]) == 20
    assert kept["suites"]["net"]["faults"] == ["a fault."]


def test_a_problem_and_changed_files_have_no_revision(tmp_path):
    suite = Suite("net", (Checkpoint("net@1", 1, 0), Checkpoint("net@2", 2, 0)))
    log = Ledger(tmp_path)
    log.record(suite, suite.checkpoints[0], "r1", CheckpointRecord(0, 1, "t", "m"), stamp="s")
    log.record(suite, suite.checkpoints[1], "", CheckpointRecord(0, 2, problem="no weights."))
    assert log.revision(suite, suite.checkpoints[0], "s") == log.revision(suite, suite.checkpoints[0]) == "r1"
    assert log.revision(suite, suite.checkpoints[0], "other") is None
    assert log.revision(suite, Checkpoint("elsewhere", 1, 0)) is None
    assert log.revision(suite, suite.checkpoints[1]) is None
    assert [record.problem for record in Ledger(tmp_path).records(suite)] == ["", "no weights."]


def test_a_record_is_written_once_and_its_last_version_counts(tmp_path):
    suite = Suite("net", (Checkpoint("net@1", 1, None),))
    log = Ledger(tmp_path)
    for revision in ("r1", "r1", "r2"):
        log.record(suite, suite.checkpoints[0], revision, CheckpointRecord(None, 1, "t", "m"))
    assert sum(bool(line.strip()) for line in log.journal.read_text().splitlines()) == 2
    assert Ledger(tmp_path).revision(suite, suite.checkpoints[0]) == "r2"


def test_the_summary_is_written_anew_whatever_was_there(tmp_path):
    """Faults of a suite that an earlier sweep recorded stay in the summary."""
    Ledger(tmp_path).record_faults(Suite("first", ()), ["a fault."])
    (tmp_path / "audit.json").write_text("{")
    Ledger(tmp_path).record_faults(Suite("second", ()), [])
    assert {name: suite["faults"] for name, suite in json.loads((tmp_path / "audit.json").read_text())["suites"].items()} == {
        "first": ["a fault."],
        "second": [],
    }


def test_a_stamp_changes_with_any_file_and_with_nothing_else(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "model" / name).mkdir(parents=True)
        (tmp_path / "model" / name / "weights.bin").write_bytes(b"1234")
    before = stamp_of(str(tmp_path / "model"))
    assert stamp_of(str(tmp_path / "model")) == before
    (tmp_path / "model" / "a" / "weights.bin").write_bytes(b"12345")
    changed = stamp_of(str(tmp_path / "model"))
    (tmp_path / "model" / "b" / "weights.bin").rename(tmp_path / "model" / "b" / "other.bin")
    assert len({before, changed, stamp_of(str(tmp_path / "model")), stamp_of(str(tmp_path / "nothing"))}) == 4
    assert stamp_of(str(tmp_path / "nothing")) == ""
