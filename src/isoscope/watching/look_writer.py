"""Computes the numbers of looks and writes them into the run. It runs in a process of its own, next to the training, without torch."""

from __future__ import annotations

import pandas as pd

from isoscope.core.site import ATTENTION_KINDS
from isoscope.core.table import TABLE_COLUMNS, concat_tables, make_table
from isoscope.runs.rows import tables
from isoscope.runs.run import Run
from isoscope.runs.tensors import unpack_statistics
from isoscope.watching.collapse import Alarm
from isoscope.watching.diary import Diary, name_values
from isoscope.watching.look import Entry, Look, Outcome, Problem, Setting, TrainingNumber, surviving

OF_STATES = ["mean_cosine", "drift_ratio", "mean_norm", "effective_rank", "top_share", "two_nn"]
OF_ATTENTION = ["mean_cosine", "drift_ratio", "qk_cosine", "qk_dot", "attention_entropy", "attention_entropy_normalised", "attention_max"]
"""The metrics of a watched step, for states and for heads."""


class LookWriter:
    """Takes the entries of a watch in order; each becomes a cell of the run, rows of the diary, and an outcome."""

    def __init__(self, setting: Setting) -> None:
        self._run, self._alarm, self._written = Run(setting.run), Alarm(setting.limits), setting.start
        self._diary = Diary(self._run, setting.columns, setting.stack, setting.start)

    def write(self, entry: Entry) -> Outcome:
        """Compute, look for collapse and write; if a part fails, the others are still done."""
        step, problems, news = entry.step, list[Problem](), dict[str, str]()
        rows, numbers = make_table([], TABLE_COLUMNS), list(entry.numbers)
        if entry.look is not None:
            with surviving(problems, step, "look", f"Step {step} was not measured"):
                rows = self._write_cell(entry.look)
                self._written = step
        with surviving(problems, step, "alarm", f"Signs of collapse were not looked for at step {step}"):
            for sign in self._alarm.find_collapse(step, rows):
                kind = "attention" if sign.kind == "entropy" else "hidden"
                numbers.append(TrainingNumber(step, f"collapse_{sign.kind}", sign.value, kind, sign.layer, sign.sentence))
                news[sign.kind] = sign.sentence
        values: dict[str, float] = {}
        with surviving(problems, step, "values", f"Loggers get no numbers of step {step}"):
            now = [self._diary.row(number) for number in numbers if number.step == step]
            values = name_values(rows) | name_values(make_table(now, TABLE_COLUMNS))
        with surviving(problems, step, "diary", f"The numbers of the training at step {step} were not kept"):
            for number in numbers:
                self._diary.add(number)
        reported = len(problems)
        for at, text in (*entry.failures, *((problem.step, problem.text) for problem in problems)):
            self._diary.add_failure(at, text)
        with surviving(problems, step, "diary", "The numbers of the training were not written"):
            self._diary.write(self._written)
        for problem in problems[reported:]:  # written with the next look
            self._diary.add_failure(problem.step, problem.text)
        return Outcome(step, values, problems, news)

    def _write_cell(self, look: Look) -> pd.DataFrame:
        statistics = unpack_statistics(look.arrays)
        parts = []
        for names, attends in ((OF_STATES, False), (OF_ATTENTION, True)):
            of_kind = {site: kept for site, kept in statistics.items() if (site.kind in ATTENTION_KINDS) is attends}
            parts.append(tables(of_kind, look.columns, look.spec, names=names, layers=look.layers)[0])
        rows = concat_tables(parts, TABLE_COLUMNS)
        self._run.write_cell(
            look.identity, look.columns, look.spec, rows, statistics=statistics, keep=look.keep, replace=True, seconds=look.seconds
        )
        return rows
