"""Parts of a look that fail: the others are done, the user reads a sentence or a traceback, and an interrupt ends the training."""

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.watching.look import Entry, Problem, surviving


def fail(error):
    problems = []
    with surviving(problems, 7, "metrics", "Step 7 has no metrics"):
        raise error
    return problems


def test_a_user_error_is_one_sentence():
    (problem,) = fail(IsoscopeError("there is no metric x"))
    assert (problem.step, problem.part, problem.text) == (7, "metrics", "Step 7 has no metrics: there is no metric x")


def test_a_bug_keeps_its_traceback():
    (problem,) = fail(ZeroDivisionError("planted"))
    first, second, *_ = problem.text.splitlines()
    assert first == "Step 7 has no metrics (ZeroDivisionError: planted); the training continues."
    assert second == "Traceback (most recent call last):"
    assert "in fail\n    raise error\n" in problem.text


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_ends_the_training(error):
    with pytest.raises(error):
        fail(error())


def test_problems_of_one_part_and_class_are_of_one_kind():
    """Their words differ by step, so the kind must not depend on them."""
    same = [Problem(step, "metrics", f"at {step}", ValueError(step)) for step in (1, 2)]
    others = [Problem(1, "the diary", "at 1", ValueError(1)), Problem(1, "metrics", "at 1", OSError(1))]
    assert same[0].kind == same[1].kind
    assert len({problem.kind for problem in same + others}) == 3
    first, second = Entry(1), Entry(2)
    first.numbers.append(1)
    assert second.numbers == []
