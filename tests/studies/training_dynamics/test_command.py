"""isoscope dynamics: each column and each finding, from rows made by hand, and the command on a small training."""

import json
import re

import pandas as pd

from isoscope.core.table import TABLE_COLUMNS, make_table
from isoscope.core.wording import format_number
from isoscope.studies.training_dynamics.command import _show_changes, _show_heads, _tables_of_layers
from tests.cli.calling import isoscope
from tests.studies.training_dynamics.made_training import write_training

NAN = float("nan")


def made_rows(*rows: tuple[str, float, dict[str, object]]) -> pd.DataFrame:
    """Rows of a suite by metric and value, each with other columns, its verdict and its note."""
    each = []
    for metric, value, more in rows:
        spec = {name: more.pop(name) for name in ("verdict", "note") if name in more}
        where = {"model": "m", "stack": "decoder", "kind": "attention", "policy": "all", "metric": metric, "value": value}
        each.append(where | {"spec": json.dumps(spec)} | more)
    return make_table(each, TABLE_COLUMNS)


def layer_rows(layer: int, entropy: str) -> list[tuple[str, float, dict[str, object]]]:
    """Two seeds at two steps, of which the last counts; twelve heads."""
    at = {"layer": layer}
    return [
        *(("alignment", 0.9, at | {"step": 0, "seed": seed, "null": 0.9}) for seed in (0, 1)),
        ("alignment", 0.2, at | {"step": 9, "seed": 0, "null": 0.1}),
        ("alignment", 0.4, at | {"step": 9, "seed": 1, "null": 0.15}),
        ("alignment_p", 0.9, at | {"step": 0}),
        ("alignment_p", 0.0123, at | {"step": 9}),
        ("alignment_change", 0.1, at | {"verdict": "holds"}),
        ("same_direction_heads", 0.25, at | {"n": 12}),
        ("opposite_direction_heads", 1 / 12 if layer == 2 else 0.0, at | {"n": 12}),
        ("attention_entropy_change", -1.25, at | {"verdict": entropy}),
        ("top_share_change", 0.05, at | {"verdict": "up"}),
        *(("onset_drift", step, at | {"head": head}) for head, step in enumerate((4.0, 8.0, 100.0))),
        ("onset_drift", 7000.0, at),
        ("onset_sharpening", NAN, at),
        ("rise_then_fall", 0.0, at | {"verdict": "undecided"}),
    ]


def test_a_layer_is_told_by_its_last_step_its_heads_and_its_verdicts():
    """Means of 0.2 and 0.4, and of 0.1 and 0.15; 3 of 12 heads; the onset is the median over heads and not that of the layer."""
    rows = made_rows(*layer_rows(2, "undecided"))
    assert [*_show_heads(rows).values()] == ["0.300", "0.125", "0.012", "holds", "3/12", "1/12", "8", ""]
    assert [*_show_changes(rows).values()] == ["-1.25?", "", "+0.0500", "undecided"]


def test_layers_stand_below_each_other_in_their_order():
    heads, changes = _tables_of_layers(made_rows(*layer_rows(2, "down"), *layer_rows(1, "undecided")), "m · decoder")
    assert (str(heads.title), str(changes.title)) == ("m · decoder: queries and keys", "m · decoder: changes")
    columns = {str(column.header): list(column.cells) for table in (heads, changes) for column in table.columns}
    assert columns["layer"] == ["1", "2"]
    assert columns["entropy"] == ["-1.25?", "-1.25"]
    assert columns["opposite"] == ["0/12", "1/12"]


def test_a_change_without_a_number_has_no_question_mark():
    rows = made_rows(("top_share_change", NAN, {"layer": 1, "verdict": "undecided"}), ("attention_entropy_change", 0.0, {"layer": 1}))
    rounded = made_rows(("attention_entropy_change", 5.55e-17, {"layer": 1}))
    assert _show_changes(rounded)["entropy"] == "0", "what rounding leaves of no change"
    assert _show_changes(rows) == {"entropy": "0", "cosine": "", "top share": "", "rise, then fall": ""}
    assert [str(table.title) for table in _tables_of_layers(rows, "m")] == ["m: changes"], "a table without numbers is left out"


def test_the_command_prints_the_changes_of_a_training(tmp_path):
    run = write_training(tmp_path / "run")
    shown = isoscope("dynamics", run).worked().out
    assert "net · encoder: changes" in shown
    assert not [word for word in (" nan", "in  of", "queries and keys") if word in shown], "there is no attention in this run"
    assert max(len(line) for line in shown.splitlines() if re.match(r" +(layer|\d) ", line)) <= 80
    rows = json.loads(isoscope("dynamics", run, "--json").worked().out)
    changes = {row["layer"]: row["value"] for row in rows if row["metric"] == "between_cosine_change"}
    for layer in (1, 2):
        (line,) = re.findall(rf"^ *{layer} .*$", shown, re.MULTILINE)
        assert format_number(changes[layer], sign=True) in line.replace("?", "")
    mean = format_number((changes[1] + changes[2]) / 2, sign=True)
    assert changes[None] == (changes[1] + changes[2]) / 2
    assert f"on average over layers {mean}" in " ".join(shown.split())


def test_a_run_without_a_training_is_refused(tmp_path):
    isoscope("dynamics", write_training(tmp_path / "run", steps=(0,))).refused("holds no suite")
