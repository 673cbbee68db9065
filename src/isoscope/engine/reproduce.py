"""A paper carried out: what its experiments need is planned, what is not done yet is done, and its figures are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.group import one_checkpoint
from isoscope.core.paper import CHOICES, Experiment, Paper, PaperFigure
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, stacked
from isoscope.engine.executor import Engine
from isoscope.engine.progress import Progress
from isoscope.engine.requested import on_request
from isoscope.engine.results import Results
from isoscope.papers import papers
from isoscope.store.manifest import key_of, manifest_of
from isoscope.store.run import Run

MODELS_FOLDER = ".cache/models"
"""Where `make zoo` puts the models that install by package name."""


@dataclass(frozen=True)
class Part:
    """One piece of work of an experiment: a model, a suite, the block, chance; and the command that does the same."""

    experiment: Experiment
    what: str
    kind: str
    command: str


@dataclass(frozen=True)
class Absent:
    """What cannot be had, why, and how to get it."""

    what: str
    reason: str
    command: str


@dataclass(frozen=True)
class Shown:
    """A figure of the paper: drawn, or why not."""

    figure: PaperFigure
    drawn: bool
    reason: str = ""


@dataclass
class Reproduction:
    """What came of it."""

    paper: Paper
    run: Path
    figures: list[PaperFigure]
    """Those that were asked for."""
    parts: list[Part]
    absent: list[Absent] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    progress: Progress = field(default_factory=lambda: Progress(quiet=True))

    @cached_property
    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Both tables of the run, with what figures and claims need beyond the default, for one checkpoint of each suite."""
        results = Results(self.run)
        named = dict.fromkeys(name for figure in self.figures for name in figure.also)
        named |= dict.fromkeys(self.paper.also if len(self.figures) == len(self.paper.figures) else ())
        rows, points = on_request(results, list(named), self.progress)
        table, series = stacked([results.table(policy="every"), rows], TABLE_COLUMNS), stacked([results.series(), points], SERIES_COLUMNS)
        return table.drop_duplicates(ignore_index=True), series.drop_duplicates(ignore_index=True)


@dataclass(frozen=True)
class Asked:
    """What a reproduction is asked for."""

    models: str = "embedded"
    data: tuple[str, ...] = ("embedded",)
    figure: str | None = None
    folder: str = MODELS_FOLDER
    options: dict[str, Any] = field(default_factory=dict)
    engine: Engine = field(default_factory=Engine)
    """Who measures."""

    def __post_init__(self) -> None:
        if self.models not in CHOICES:
            raise IsoscopeError(f"--models takes {', '.join(CHOICES)}; got {self.models!r}{nearest(self.models, list(CHOICES)) or '.'}")


def planned(paper: Paper, asked: Asked, out: Path) -> tuple[list[Part], list[Absent]]:
    """The work, each piece once, and what cannot be had without trying."""
    wanted = [paper.experiment(name) for name in paper.figure(asked.figure).needs] if asked.figure else list(paper.experiments)
    parts: list[Part] = []
    absent: list[Absent] = []
    found = local_models(asked.folder) if asked.models == "local" and any(one.kind == "models" for one in wanted) else []
    for experiment in wanted:
        own = list(_parts(experiment, asked, found, out))
        parts += [part for part in own if (part.kind, part.what) not in {(other.kind, other.what) for other in parts}]
        if not own:
            reason = "no such model comes with isoscope" if asked.models == "embedded" else f"no model lies in {asked.folder}"
            absent.append(Absent(f"{experiment.name}: {experiment.says}", reason, _fetch(paper, experiment, asked)))
    return parts, absent


def _parts(experiment: Experiment, asked: Asked, found: list[str], out: Path) -> Iterable[Part]:
    data = " ".join(f"--data '{spec}'" for spec in data_of(experiment, asked))
    data += "".join(f" --split-body {one}" for one in experiment.options.get("split_body", ()))
    if experiment.kind == "block":
        yield Part(experiment, "block", "block", f"isoscope untrained-block --out {out}")
    elif experiment.kind == "null":
        yield Part(experiment, "isotropic vectors", "null", f"isoscope isotropic-null --out {out}")
    elif experiment.kind == "suite" or asked.models == "embedded":
        names = experiment.paper if asked.models == "paper" else experiment.embedded
        chosen = f" --steps {experiment.steps}" if experiment.steps and asked.models == "paper" else ""
        for name in names:
            yield Part(experiment, name, "suite", f"isoscope sweep '{name}'{chosen} {data} --out {out}")
    else:
        for name in experiment.paper if asked.models == "paper" else found:
            yield Part(experiment, name, "model", f"isoscope measure '{name}' {data} --out {out}")


def _fetch(paper: Paper, experiment: Experiment, asked: Asked) -> str:
    """The command that gets what an experiment lacks."""
    if asked.models == "local":
        return "make zoo fetches real models into .cache/models"
    return f"isoscope reproduce {paper.name} --models paper, with a hub: {', '.join(experiment.paper)}; or --models local"


def data_of(experiment: Experiment, asked: Asked) -> tuple[str, ...]:
    """The sources of an experiment: the paper's own where `paper` is asked for."""
    return tuple(experiment.data if spec == "paper" else spec for spec in asked.data)


def local_models(folder: str) -> list[str]:
    """The models in a folder: folders with a configuration, and GGUF or Whisper files one level down."""
    root = Path(folder)
    if not root.is_dir():
        raise IsoscopeError(f"There is no folder {folder}; name one that holds models with --folder, or fetch some with `make zoo`.")
    found = []
    for path in sorted(root.iterdir()):
        if path.is_dir():
            alone = sorted(path.glob("*.gguf"))
            found += [str(one) for one in alone] or [str(path)]
        elif path.suffix in (".gguf", ".pt"):
            found.append(str(path))
    return found


def reproduce(name: str, out: str | Path, asked: Asked | None = None, *, quiet: bool = False) -> Reproduction:
    """Do of a paper what is not done yet; what cannot be had is listed and stops nothing."""
    asked, paper, folder = asked or Asked(), papers[name], Path(out)
    parts, absent = planned(paper, asked, folder)
    progress = Progress(quiet=quiet)
    figures = [paper.figure(asked.figure)] if asked.figure else list(paper.figures)
    found = Reproduction(paper, folder, figures, parts, absent, progress=progress)
    work = Work(folder, asked, progress)
    Run(folder).prepare()
    for act, own in (
        (work.suites, [part for part in parts if part.kind == "suite"]),
        (work.models, [part for part in parts if part.kind == "model"]),
        (work.block, [part for part in parts if part.kind == "block"]),
        (work.chance, [part for part in parts if part.kind == "null"]),
    ):
        problems = act(own) if own else []
        for problem in problems:
            progress.note(f"{problem.what}: {problem.reason}")
        found.absent += problems
    if not Run(folder).cells():
        raise IsoscopeError(f"Nothing of {name} could be done: {found.absent[0].reason} ({found.absent[0].command}).")
    found.shown = shown(found)
    return found


@dataclass(frozen=True)
class Work:
    """How each kind of part is done."""

    run: Path
    asked: Asked
    progress: Progress

    def suites(self, parts: list[Part]) -> list[Absent]:
        """Suites of one experiment in one sweep, which measures them side by side."""
        from isoscope.engine.sweep import sweep_all

        problems = []
        for experiment in dict.fromkeys(part.experiment.name for part in parts):
            own = [part for part in parts if part.experiment.name == experiment]
            one = own[0].experiment
            own_steps = (one.steps, one.seeds) if self.asked.models == "paper" else (None, None)

            def act(own: list[Part] = own, one: Experiment = one, steps: Any = own_steps) -> None:
                options = self._options(one)
                own_count = options.pop("processes", None)
                engine = self.asked.engine
                _, faults = sweep_all(
                    [part.what for part in own],
                    data_of(one, self.asked),
                    self.run,
                    steps=steps[0],
                    seeds=steps[1],
                    delete=self.asked.models == "paper",
                    engine=engine if engine.processes or engine.far else replace(engine, processes=own_count),
                    column=None,
                    quiet=self.progress.quiet,
                    **options,
                )
                for fault in faults:
                    self.progress.note(fault)

            problems += self._tried(own[0], act)
        return problems

    def models(self, parts: list[Part]) -> list[Absent]:
        """The models of one experiment side by side: what one lacks stops no other."""
        problems = []
        for experiment in dict.fromkeys(part.experiment.name for part in parts):
            own = [part for part in parts if part.experiment.name == experiment]
            problems += self._together(own) if self._side_by_side else [one for part in own for one in self._together([part])]
        return problems

    @property
    def _side_by_side(self) -> bool:
        return self.asked.engine.far or (self.asked.engine.processes or 1) > 1

    def _together(self, parts: list[Part]) -> list[Absent]:
        from isoscope.engine.measure import measure
        from isoscope.engine.spread import UnfinishedError
        from isoscope.models.reference import resolve

        options = self._options(parts[0].experiment)
        options.pop("processes", None)
        asked = self.asked.engine
        there, problems = [], []
        for part in parts:
            missing = self._tried(part, lambda part=part: resolve(part.what, seed=options.get("seed", 0)))  # type: ignore[misc]
            problems += missing
            there += [] if missing else [part]

        def act() -> None:
            data = data_of(there[0].experiment, self.asked)
            where: dict[str, Any] = {"executor": asked.name, "address": asked.address, "processes": asked.processes}
            measure([part.what for part in there], data, self.run, quiet=self.progress.quiet, **where, **options)

        try:
            problems += self._tried(there[0], act, but=UnfinishedError) if there else []
        except UnfinishedError as error:
            reasons = {one.spec: one.reason for one in error.failures}
            problems += [self._absent(part, reasons[part.what]) for part in there if part.what in reasons]
        return problems

    def block(self, parts: list[Part]) -> list[Absent]:
        """The paper's own setting."""
        from isoscope.engine.measure import limited_threads
        from isoscope.lab.block import Network, Trial, carry_out

        trial = Trial(draws=int(self._options(parts[0].experiment).get("draws", 5)))
        total = trial.draws * len(trial.norms)
        with limited_threads(self.asked.options.get("threads")), self.progress.bar("block", total, "measurements") as bar:
            carry_out(Run(self.run), Network(), trial, bar.advance)
        return []

    def chance(self, parts: list[Part]) -> list[Absent]:
        """The closed forms, as a cell."""
        from isoscope.lab.null import DIMENSIONS, tables

        identity = {"experiment": "isotropic", "version": 1, "n": 4096, "d": list(DIMENSIONS), "shard": [0, 1]}
        key, run = key_of(identity), Run(self.run)
        if run.cell(key) is None:
            rows, series = tables(DIMENSIONS, 4096)
            run.write(key, manifest_of(identity, {"model": "isotropic"}, {}, "rows"), rows, series, None)
        return []

    def _options(self, experiment: Experiment) -> dict[str, Any]:
        embedded = self.asked.models == "embedded" or (self.asked.models == "local" and experiment.kind == "suite")
        chosen = experiment.small if embedded else experiment.options
        return dict(chosen) | {name: value for name, value in self.asked.options.items() if value is not None}

    def _tried(self, part: Part, act: Callable[[], object], but: type[IsoscopeError] | tuple[()] = ()) -> list[Absent]:
        try:
            act()
        except but:
            raise
        except IsoscopeError as error:
            return [self._absent(part, error)]
        return []

    def _absent(self, part: Part, error: IsoscopeError) -> Absent:
        gated = part.experiment.gated if "paper" in self.asked.data else ""
        return Absent(part.what, str(error), gated or part.command)


def shown(found: Reproduction) -> list[Shown]:
    """Which figures of the paper the run can fill, and why it cannot fill the others."""
    from isoscope.figures import figures

    table, series = found.tables
    now = one_checkpoint(table, series)
    said = []
    for figure in found.figures:
        drawn = any(figures[name].draw(*((table, series) if name.startswith("training_") else now)) is not None for name in figure.draws)
        said.append(Shown(figure, drawn, "" if drawn else _why(found, figure)))
    return said


def _why(found: Reproduction, figure: PaperFigure) -> str:
    """Why a figure is not there."""
    of = [part.what for part in found.parts if part.experiment.name in figure.needs]
    reasons = [one for one in found.absent if one.what in of or one.what.partition(":")[0] in figure.needs]
    return "; ".join(f"{one.reason} ({one.command})" for one in reasons) or "the run holds nothing that it could be drawn from"


def options_of(**given: Any) -> Asked:
    """What is asked for, from options of the command line; those that are None keep the experiment's own."""
    own = {name: given.pop(name) for name in ("models", "figure", "folder") if given.get(name) is not None}
    data = given.pop("data", None)
    asked = Asked(**own, options={name: value for name, value in given.items() if value is not None and name not in own})
    return replace(asked, data=tuple(data)) if data else asked
