"""isoscope train refuses, in one sentence, a training that no machine has room for."""

import pytest

from tests.cli.calling import isoscope


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--seeds", "9" * 30), "--seeds must be at most 9,223,372,036,854,775,807; got 999,"),
        (("--width", "2147483648", "--heads", "2"), "A network of 2,147,483,648 dimensions would take "),
        (("--layers", "2147483648"), "--layers must be at most 4,096; got 2,147,483,648."),
        (("--steps", str(1 << 63)), "--steps must be at most 1,000,000,000,000,000; got 9,223,372,036,854,775,808."),
    ],
)
def test_a_training_that_no_machine_has_room_for(paragraphs, tmp_path, words, said):
    isoscope("train", "causal-text", "--data", paragraphs, "--out", tmp_path / "suite", "-q", *words).refused(said)
