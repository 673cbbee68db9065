"""Parts that fail through a bug of ours are collected and raised at the end; errors of the user and a lack of memory are raised at once."""

import pytest

from isoscope.core.errors import Failures, IsoscopeError, describe_error


def raiser(error):
    def act():
        raise error

    return act


def test_other_parts_are_made_and_all_failures_are_raised_together():
    failures = Failures()
    assert failures.attempt("the sum", lambda: 3) == 3
    assert failures.attempt("the mean", raiser(ZeroDivisionError("division by zero"))) is None
    assert failures.attempt("the figure", raiser(KeyError("layer"))) is None
    assert [failures.describe(part) for part in ("the sum", "the mean", "the figure")] == [
        "",
        "ZeroDivisionError: division by zero",
        "KeyError: 'layer'",
    ]
    with pytest.raises(ExceptionGroup, match="2 parts of the page failed") as caught:
        failures.raise_all("the page")
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError, KeyError]
    assert caught.value.exceptions[0].__notes__ == ["isoscope was making the mean"]
    assert caught.value.exceptions[0].__traceback__ is not None


def test_without_failures_nothing_is_raised():
    failures = Failures()
    failures.attempt("the sum", lambda: None)
    assert failures.raise_all("the page") is None
    assert failures.errors == {}


@pytest.mark.parametrize("error", [IsoscopeError("No file."), MemoryError(), RuntimeError("can't allocate memory"), KeyboardInterrupt()])
def test_errors_that_are_no_bugs_end_everything(error):
    failures = Failures()
    with pytest.raises(type(error)):
        failures.attempt("the sum", raiser(error))
    assert failures.errors == {}


def test_a_description_is_one_short_line():
    assert describe_error(ValueError("two\n  lines")) == "ValueError: two lines"
    assert len(describe_error(ValueError("x" * 1000))) == 300
