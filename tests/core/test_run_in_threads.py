"""Steps in threads: all of them run, at once, and none runs on after an error."""

import threading

import pytest

from isoscope.core.run_in_threads import run_in_threads


def test_steps_run_at_once():
    """Each step waits for the other: one after the other they would never end."""
    meeting = threading.Barrier(2, timeout=300)
    seen = []
    run_in_threads([lambda: seen.append(meeting.wait()) for _ in range(2)])
    assert sorted(seen) == [0, 1]


@pytest.mark.parametrize("fails", [0, 1])
def test_an_error_is_raised_after_the_other_steps_have_ended(fails):
    ended = []

    def step(number):
        if number == fails:
            raise ZeroDivisionError
        ended.append(number)

    with pytest.raises(ZeroDivisionError):
        run_in_threads([lambda: step(0), lambda: step(1)])
    assert ended == [1 - fails]
