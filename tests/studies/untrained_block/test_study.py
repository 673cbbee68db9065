"""What `isoscope reproduce` runs of the untrained block: the cell that its command would write, and sentences for the page."""

from functools import partial

import pytest

from isoscope.core.progress import Progress
from isoscope.core.study import studies
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.report.line import all_lines
from isoscope.report.summary import summarise
from isoscope.runs.run import Run
from isoscope.studies.untrained_block import experiment
from tests.claims.made_rows import block_row
from tests.cli.calling import isoscope
from tests.studies.untrained_block.small_networks import SMALL

STUDY = studies["untrained_block"]


@pytest.mark.usefixtures("one_thread")
def test_it_is_the_cell_of_the_papers_network_that_the_command_writes(monkeypatch, tmp_path):
    """With the sizes of both made small alike, the command finds the cell done; only the number of draws is asked for."""
    monkeypatch.setattr(experiment, "Trial", partial(experiment.Trial, sizes=SMALL, norms=(0.0, 2.0)))
    STUDY.experiment(tmp_path, {"draws": 2, "threads": 1}, Progress(quiet=True))
    (cell,) = Run(tmp_path).cells()
    identity = cell.manifest["identity"]
    assert {name: identity[name] for name in ("init", "norm", "variant", "depths", "draws", "seed")} == {
        "init": "bert",
        "norm": "post",
        "variant": "full",
        "depths": [1],
        "draws": 2,
        "seed": 0,
    }
    monkeypatch.undo()
    verb = STUDY.command.split()[1:]
    sizes = ("--d", 32, "--heads", 4, "--length", 24, "--batch", 3, "--vocabulary", 50, "--norms", "0,2", "--draws", 2, "--threads", 1)
    answer = isoscope(*verb, *sizes, "--out", tmp_path).worked()
    assert "block bert post-LN: already measured." in answer.err
    assert len(Run(tmp_path).cells()) == 1


def test_the_page_speaks_of_a_block_under_the_studys_topics():
    table = make_table([block_row("norm_fixed_point", 5.66, 0.01), block_row("least_cosine_gain", 0.25, 0.01)], TABLE_COLUMNS)
    (line,) = all_lines(table, make_table([], SERIES_COLUMNS))
    said = summarise(line, [])
    assert said["Fixed point"].startswith("Output and input are equally long: by the mean of norms N* = 5.66")
    assert "is at least 0.250" in said["Output and input"]
    assert "Norms" not in said
