"""Printing: no number is ever cut, and JSON is what every reader takes."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest

from isoscope.console import output
from isoscope.core.errors import IsoscopeError


def printed(capsys, table):
    output.print_table(table)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_numbers_are_never_cut_however_many_columns_there_are(capsys):
    names = [f"column {i}" for i in range(14)]
    table = output.new_table(names, title="Wide")
    table.add_row(*(f"{i}.123 [0.1, 0.2]" for i in range(14)))
    lines = printed(capsys, table)
    text = "\n".join(lines)
    assert all(f"{i}.123 [0.1, 0.2]" in text for i in range(14))
    assert all(name in text for name in names)
    assert max(map(len, lines)) <= output.WIDTH == 80
    assert text.count("column 0") == text.count("0.123 [0.1, 0.2]") - 1 == 5  # each part names its rows; 10.123 has the digits, too


def test_a_column_without_content_is_left_out(capsys):
    table = output.new_table(["layer", "95 % interval", "value"])
    table.add_row("0", "", "0.1")
    table.add_row("1", " ", "0.2")
    assert "interval" not in "\n".join(printed(capsys, table))
    table.add_row("2", "0.1 to 0.3", "0.2")
    assert "interval" in "\n".join(printed(capsys, table))


def test_parts_of_a_wide_table_repeat_every_column_that_names_a_row(capsys):
    table = output.new_table(["model", "stack", *(f"metric {i}" for i in range(9))], words=("model", "stack"))
    table.add_row("bert-base-uncased", "encoder", *(f"0.{i}00 ± 0.010" for i in range(9)), style="bold")
    lines = printed(capsys, table)
    rows = [line for line in lines if "bert-base" in line]
    assert len(rows) > 1
    assert all("encoder" in line for line in rows)
    assert max(map(len, lines)) <= 80


def test_next_steps_are_no_output(capsys):
    output.print_next_steps(("isoscope table runs/a", "shows it"), ("isoscope report runs/\x1b[2Ja", "draws it"))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines()[0] == "Next:"
    assert re.search(r"^  isoscope table runs/a +shows it$", shown.err, re.MULTILINE)
    assert "\x1b" not in shown.err


def test_text_wraps_beside_whole_numbers(capsys):
    table = output.new_table(["claim", "effect"], text=("claim",))
    table.add_row("a sentence of many words " * 12, "1.00 [0.292, 1.00]")
    lines = printed(capsys, table)
    assert max(map(len, lines)) <= output.WIDTH
    assert sum("1.00 [0.292, 1.00]" in line for line in lines) == 1
    assert sum("sentence" in line for line in lines) > 2


def test_a_long_name_is_folded_and_not_lost(capsys):
    table = output.new_table(["model", "d"], text=("model",))
    table.add_row("x" * 300, "768")
    lines = printed(capsys, table)
    assert sum(line.count("x") for line in lines) == 300
    assert max(map(len, lines)) <= output.WIDTH


def test_names_are_not_read_as_markup(capsys):
    table = output.new_table(["model"], words=("model",))
    table.add_row("[red]model[/red] :smile:")
    assert any("[red]model[/red] :smile:" in line for line in printed(capsys, table))


def test_columns_without_an_entry_are_left_out(capsys):
    table = output.new_table(["model", "p", "ρ"], text=("model",))
    table.add_row("bert", "", "0.123456789")
    table.add_row("gpt2", "", "")
    header, _, *rows = filter(None, printed(capsys, table))
    assert header.split() == ["model", "ρ"]
    assert [row.split() for row in rows] == [["bert", "0.123456789"], ["gpt2"]]


def test_json_has_null_for_what_is_not_a_number(capsys):
    frame = pd.DataFrame({"value": [0.1, math.nan, math.inf], "layer": pd.array([1, None, 3], dtype="Int64"), "model": ["a", None, "c"]})
    output.print_json({"rows": output.to_records(frame), "least": np.float64(-math.inf)})
    read = json.loads(capsys.readouterr().out)
    assert read["least"] is None
    assert read["rows"] == [
        {"value": 0.1, "layer": 1, "model": "a"},
        {"value": None, "layer": None, "model": None},
        {"value": None, "layer": 3, "model": "c"},
    ]


def test_notes_go_to_standard_error_without_control_characters(capsys):
    output.print_note("a\x1b[2Jname")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "isoscope: note: a\\x1b[2Jname\n")


def test_a_file_that_cannot_be_written_is_a_user_error_and_a_closed_pipe_is_not():
    with pytest.raises(IsoscopeError, match=r"Cannot write here: No space left on device\."), output.write_errors_as_user_errors("here"):
        raise OSError(28, "No space left on device")
    with pytest.raises(BrokenPipeError), output.write_errors_as_user_errors("here"):
        raise BrokenPipeError
