"""Notes go to standard error without control characters, and a quiet task writes nothing."""

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
