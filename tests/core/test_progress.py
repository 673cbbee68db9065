"""Notes go to standard error without control characters, and a quiet task writes nothing."""

from isoscope.core import progress as progress_module
from isoscope.core.progress import Progress


def test_a_note_is_one_plain_line_on_standard_error(capsys):
    Progress().note("[red]odd[/red] \x1b[2Jname " + "x" * 300)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "[red]odd[/red] \\x1b[2Jname " + "x" * 300 + "\n")


def test_a_quiet_task_writes_nothing(capsys):
    progress = Progress(quiet=True)
    progress.note("a note")
    with progress.bar("measuring", 10, "tokens") as bar:
        bar.advance(3, rate="5/s")
    assert capsys.readouterr() == ("", "")


def test_a_bar_counts_what_is_done_and_ends_with_its_context(capsys):
    progress = Progress()
    with progress.bar("a\x1b[2Jb", 10, "tokens") as bar:
        bar.advance(3)
        bar.advance(rate="7 tokens/s")
        (task,) = progress._bars.tasks
        assert (task.completed, task.total, task.description, task.fields["rate"]) == (4, 10, "a\\x1b[2Jb", "7 tokens/s")
        progress.note("in between")
    assert progress._bars is None
    assert "in between\n" in capsys.readouterr().err


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(progress_module, "clock", lambda: self.now)

    def spend(self, bar, seconds, amount):
        self.now += seconds
        bar.advance(amount)


def test_a_long_task_says_how_long_it_takes_and_then_how_far_it_is_every_ten_seconds(capsys, monkeypatch):
    clock = Clock(monkeypatch)
    with Progress().bar("measuring", 1000, "tokens") as bar:
        for _ in range(50):
            clock.spend(bar, 1, 20)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == ["measuring: about 50 s", "measuring: 22 % done, about 39 s left", "measuring: 42 % done, about 29 s left"]
    assert len(lines) == 5


def test_a_short_task_says_nothing(capsys, monkeypatch):
    clock = Clock(monkeypatch)
    with Progress().bar("measuring", 9, "tokens") as bar:
        for _ in range(9):
            clock.spend(bar, 1, 1)
    assert capsys.readouterr().err == ""


def test_a_task_of_unknown_length_counts(capsys, monkeypatch):
    clock = Clock(monkeypatch)
    with Progress().bar("reading", None, "items") as bar:
        for _ in range(25):
            clock.spend(bar, 1, 100)
    assert capsys.readouterr().err.splitlines() == ["reading: 1,000 items", "reading: 2,000 items"]


def test_parts_that_were_done_before_do_not_count_for_the_speed(capsys, monkeypatch):
    clock = Clock(monkeypatch)
    with Progress().bar("measuring", 1000, "tokens") as bar:
        clock.spend(bar, 0, 900)
        clock.spend(bar, 5, 25)
    assert capsys.readouterr().err.splitlines() == ["measuring: about 20 s"]
