"""The rows of a run as printed lines of at most 80 columns."""

import math

import pytest

from isoscope.console.run_table import print_rows
from isoscope.core.table import TABLE_COLUMNS, make_table
from isoscope.core.text_table import WIDTH

PLACES = [("input_embedding", None, 80, 0.125), ("hidden", 0, 1200, 0.25), ("hidden", 1, 1200, 0.5), ("final", 2, 1200, -0.75)]


def rows_of(model, metrics, **more):
    """One row per metric and place; the null of an embedding table differs from that of the layers."""
    return [
        {"model": model, "revision": "main", "stack": "encoder", "kind": kind, "layer": layer, "policy": "all", "metric": metric}
        | {"value": value * scale, "low": value * scale - 0.01, "high": value * scale + 0.01, "n": n, "d": 32}
        | {"null": 0.0 if metric.endswith("cosine") else scale * (4.0 if layer is None else 2.0), "null_sd": math.nan}
        | more
        for metric, scale in metrics.items()
        for kind, layer, n, value in PLACES
    ]


def printed(capsys, rows, *, wide=False):
    print_rows(make_table(rows, TABLE_COLUMNS), wide=wide)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_the_long_table_has_the_layers_below_each_metric(capsys):
    assert printed(capsys, rows_of("bert", {"isoscore": 1.0, "mean_cosine": 1.0})) == [
        *("bert · encoder · tokens: all · n = 80–1,200 · d = 32", ""),
        *("  layer             value     95 % interval  isotropic", ""),
        "mean_cosine",
        "  input embedding   0.125    0.115 to 0.135      0.000",
        "  0                 0.250    0.240 to 0.260      0.000",
        "  1                 0.500    0.490 to 0.510      0.000",
        *("  final norm       -0.750  -0.760 to -0.740      0.000", ""),
        "isoscore",
        "  input embedding   0.125    0.115 to 0.135       4.00",
        "  0                 0.250    0.240 to 0.260       2.00",
        "  1                 0.500    0.490 to 0.510       2.00",
        *("  final norm       -0.750  -0.760 to -0.740       2.00", ""),
    ]


def test_the_wide_table_ends_with_the_values_of_layers_under_isotropy(capsys):
    """The embedding table has another null, which is not shown; a null that differs between layers is shown as a range."""
    rows = rows_of("bert", {"isoscore": 1.0, "mean_cosine": 1.0})
    rows[2] |= {"null": 1.5, "value": math.nan}
    assert printed(capsys, rows, wide=True) == [
        *("bert · encoder · tokens: all · n = 80–1,200 · d = 32", ""),
        "                   mean_",
        " layer            cosine   isoscore",
        " " + "─" * 34,
        " input embedding   0.125      0.125",
        " 0                 0.250      0.250",
        " 1                 0.500          –",
        " final norm       -0.750     -0.750",
        *(" isotropic          0.00  1.50–2.00", ""),
    ]


def test_two_revisions_of_a_model_have_titles_of_their_own(capsys):
    rows = rows_of("bert", {"isoscore": 1.0}) + rows_of("bert", {"isoscore": 1.0}, revision="v2") + rows_of("gpt", {"isoscore": 1.0})
    titles = [line.partition(" · ")[0] for line in printed(capsys, rows) if " · " in line]
    assert titles == ["bert @ main", "bert @ v2", "gpt"]


@pytest.mark.parametrize("wide", [False, True])
def test_every_network_and_policy_has_a_table_of_at_most_80_columns(capsys, wide):
    metrics = {f"a_metric_with_number_{i}": 1000.0 + 8 * i for i in range(14)}
    rows = rows_of("bert", metrics, step=800, seed=1) + rows_of("bert", metrics) + rows_of("bert", metrics, policy="body")
    lines = printed(capsys, rows, wide=wide)
    assert [line for line in lines if "tokens:" in line] == [
        "bert · step 800 · seed 1 · encoder · tokens: all · n = 80–1,200 · d = 32",
        "bert · encoder · tokens: all · n = 80–1,200 · d = 32",
        "bert · encoder · tokens: body · n = 80–1,200 · d = 32",
    ]
    shown = "\n".join(lines).split()
    assert [shown.count(f"{-0.75 * scale:.0f}") for scale in metrics.values()] == [3] * 14, "each number is once in each table"
    assert max(map(len, lines)) <= WIDTH == 80


def test_a_run_without_rows_says_so(capsys):
    assert printed(capsys, []) == ["No rows."]
