"""Every table and every help in a terminal of eighty columns."""

import re

import numpy as np
import pytest

from isoscope.cli.list_ import LISTS
from isoscope.core.text_table import text_width
from tests.cli.terminal import in_terminal


def fits(lines, width=80):
    """Lines that are no longer than this; the commands to run next hold the paths of users, and are as long as these."""
    long = [line for line in lines if text_width(line) > width and not line.startswith("  isoscope ")]
    assert not long, long
    return lines


def test_the_table_of_a_run_is_readable(good_run):
    lines = fits(in_terminal("table", good_run, "--metric", "mean_cosine"))
    text = "\n".join(lines)
    assert "fingerprint" not in text
    assert re.search(r"^mean_cosine\n +input embedding +-?[\d.]+ +-?[\d.]+ to -?[\d.]+ +0\.0+ ± ", text, re.MULTILINE)
    assert re.search(r"^ +final norm +0\.\d{3,4} +", text, re.MULTILINE)
    assert "isoscope table" in text.partition("Next:")[2]


def test_every_row_of_the_table_of_a_run_names_its_layer(good_run):
    """With long names of metrics and of layers, too, and with every interval next to its value."""
    lines = fits(in_terminal("table", good_run))
    assert "participation_ratio_corrected" in lines
    numbers = [line for line in lines if re.search(r" to -?\d", line)]
    assert len(numbers) > 50
    assert all(re.match(r"  (input embedding|\d+|final norm|all layers) +-?\d\S* +-?\d\S* to -?\d", line) for line in numbers)


def test_the_wide_table_has_layers_as_rows(good_run):
    lines = fits(in_terminal("table", good_run, "--wide"))
    rows = [line for line in lines if re.match(r" *final norm ", line)]
    assert len(rows) >= 2 * 2  # two models, and more columns than fit into one part
    assert any(re.match(r" *isotropic +0\.0", line) for line in lines)
    assert all(re.fullmatch(r" *final norm( +(-?[\d.,]+(e[-+]\d+)?|–))+", row) for row in rows)


def test_embeddings_begin_with_the_verdict(tmp_path):
    x = np.random.default_rng(0).standard_normal((400, 16)) + 2
    np.save(tmp_path / "vectors.npy", x)
    lines = fits(in_terminal("embeddings", tmp_path / "vectors.npy", "-q"), 200)
    first = [line for line in lines if line][1]
    assert first == "Not healthy: drift."


@pytest.mark.parametrize("verb", ["measure", "sweep", "embeddings", "table", "report", "compare", "train", "dynamics", "reproduce"])
def test_help_groups_options_and_names_no_python_types(verb):
    text = "\n".join(fits(in_terminal(verb, "--help")))
    headings = re.findall(r"^╭─ (.+?) ─+╮$", text, re.MULTILINE)
    assert headings[-1] == "Output"
    assert "Options" not in headings
    known = ["Arguments", "What to measure", "On what", "How much", "Attention", "Where it runs", "Output"]
    assert headings == [name for name in known if name in headings]
    assert not re.search(r"<(bool|str|int|float|list)", text)


@pytest.mark.parametrize("what", ["metrics", "families", "sources", "figures", "claims", "recipes"])
def test_lists_fit_however_long_the_words_in_their_texts_are(what):
    lines = fits(in_terminal("list", what))
    names = [row["name"] for row in LISTS[what]()]
    assert [name for name in names if not any(re.match(rf" ?{re.escape(name)}(  |,|$)", line) for line in lines)] == []


def test_the_first_lines_that_anybody_sees_fit():
    assert any(line.startswith("  isoscope embeddings ") for line in fits(in_terminal()))
