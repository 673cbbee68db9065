"""The instrument finds studies by their files, and calls what they declare."""

import os
import sys

from isoscope.core.study import studies
from tests.patience import run_process

STUDY = """
from isoscope.core.study import Study

mine = Study(
    name="mine",
    question="Is it so?",
    meaning={"my_number": "How much of it there is."}.get,
    sentences={"Mine": lambda line: f"{line.name} has it."},
)
"""

PROGRAM = """
import sys
from isoscope.core.study import studies
from isoscope.report.line import all_lines
from isoscope.report.methods import meaning_of
from isoscope.report.summary import summarise
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table

row = {"model": "BERT", "kind": "hidden", "layer": 1, "metric": "my_number", "value": 1.0, "policy": "all", "d": 4}
table = make_table([row], TABLE_COLUMNS)
[line] = all_lines(table, make_table([], SERIES_COLUMNS))
print(studies["mine"].question, meaning_of("my_number").summary, summarise(line, [])["Mine"], "torch" in sys.modules, sep="|")
"""


def test_the_studies_that_come_with_isoscope_are_found():
    assert {"training_dynamics", "untrained_block"} <= set(studies.names())


def test_a_plugin_folder_adds_a_study_to_the_page(tmp_path):
    folder = tmp_path / "studies" / "mine"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "study.py").write_text(STUDY)
    done = run_process([sys.executable, "-c", PROGRAM], env=os.environ | {"ISOSCOPE_PLUGINS": str(tmp_path)})
    assert done.stdout.strip() == "Is it so?|How much of it there is.|BERT has it.|False", done.stderr
