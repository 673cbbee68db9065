"""What is fuzzed: each target spoils a valid file, or words, as chance has it, and hands it to what parses it."""

import contextlib
import hashlib
import json
import random
import shutil
from functools import cache
from pathlib import Path

from tests.hostile.commands import COMPUTING, READERS, cli, command, options, suites, words
from tests.hostile.mutate import EVERY, GONE, STRIDE, VALUES, leaves, mutated, mutated_json, replaced
from tests.hostile.seeds import RUN
from tests.hostile.spoilt_arrays import CHANGES, spoil_array

METRICS = ["mean_cosine", "effective_rank"]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _damaged(seeds: Path, kind: str, work: Path, chance: random.Random) -> Path:
    """A file of a kind, spoilt."""
    seed = chance.choice(_files(seeds / kind))
    path = work / seed.name
    path.write_bytes(mutated(seed.read_bytes(), chance))
    return path


def _opened(raw: bytes) -> tuple[dict, bytes]:
    """The header of a safetensors file, and what follows it."""
    size = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + size]), raw[8 + size :]


def _closed(header: object, body: bytes) -> bytes:
    """The file again, whatever its header has become."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def arrays(seeds: Path, work: Path, chance: random.Random) -> None:
    from isoscope.runs.matrix_geometry import geometry

    geometry(_damaged(seeds, "arrays", work, chance), metric=METRICS, allow_wide=chance.random() < 0.5)


def _source(seeds: Path, work: Path, chance: random.Random, kind: str, modality: str) -> None:
    from isoscope.sources import open_source

    source = open_source(str(_damaged(seeds, kind, work, chance)), None, modality)
    for item in source.items():
        str(item.id).encode("utf-8", "surrogatepass")
    assert len(source.fingerprint) == 64


def text(seeds: Path, work: Path, chance: random.Random) -> None:
    _source(seeds, work, chance, "text", "text")


def wiki(seeds: Path, work: Path, chance: random.Random) -> None:
    _source(seeds, work, chance, "wiki", "text")


def speech(seeds: Path, work: Path, chance: random.Random) -> None:
    from isoscope.sources import open_source
    from isoscope.sources.speech import resample

    for item in open_source(str(_damaged(seeds, "speech", work, chance)), None, "speech").items():
        resample(item.content.samples, item.content.rate, 16_000)


def images(seeds: Path, work: Path, chance: random.Random) -> None:
    _source(seeds, work, chance, "images", "images")


def _read_run(run: Path, chance: random.Random) -> None:
    """A run as its readers read it; `verify` must answer whatever it holds."""
    from isoscope.core.progress import Progress
    from isoscope.runs.merging import merge
    from isoscope.runs.results import Results
    from isoscope.runs.verify import size_of, verify

    size_of(run)
    for one in verify(run):
        str(one)
    what = chance.choice(("table", "series", "more", "merge", "drift", "page"))
    results = Results(run)
    if what == "table":
        results.table(policy="every")
    elif what == "series":
        results.series()
    elif what == "more":
        results.table(["cosine_sd", "effective_rank"], "all")
    elif what == "merge":
        merge([run], run.with_name("merged"))
    elif what == "drift":
        results.associations()
    else:
        results.manifests()
        results.cached_tables(["two_nn"], Progress(quiet=True))


def _spoil_bytes(run: Path, chance: random.Random) -> None:
    """Any file of a run, its hash not made to fit or made so."""
    path = chance.choice(_files(run))
    path.write_bytes(mutated(path.read_bytes(), chance))
    if path.name != "manifest.json" and chance.random() < 0.8:
        _fit(path)


def _fit(path: Path) -> None:
    from isoscope.runs.stored_cell import seal_manifest
    from isoscope.runs.writing import sha256

    manifest = json.loads((path.parent / "manifest.json").read_text())
    manifest["files"][path.name] = {"bytes": path.stat().st_size, "sha256": sha256(path)}
    (path.parent / "manifest.json").write_text(seal_manifest(manifest))


def _spoil_manifest(run: Path, chance: random.Random) -> None:
    """A manifest with other values in it, its seal made to fit."""
    from isoscope.runs.stored_cell import seal_manifest

    path = chance.choice(sorted((run / "cells").glob("*/manifest.json")))
    found = mutated_json(json.loads(path.read_text()), chance)
    with contextlib.suppress(UnicodeEncodeError):
        path.write_text(seal_manifest(found) if isinstance(found, dict) else json.dumps(found), "utf-8")


def _spoil_rows(run: Path, chance: random.Random) -> None:
    """A table with strange values in it, its hash made to fit."""
    import pandas as pd

    cell = chance.choice(sorted((run / "cells").iterdir()))
    path = cell / chance.choice(("rows.parquet", "series.parquet"))
    frame = pd.read_parquet(path).astype(object)
    try:
        for _ in range(chance.choice((1, 3))):
            column = chance.choice(list(frame.columns))
            value = chance.choice([value for value in VALUES if not isinstance(value, list | dict)])
            if column == "spec" and chance.random() < 0.6:
                value = json.dumps(mutated_json(json.loads(frame[column].iloc[0]), chance))
            if chance.random() < 0.2:
                frame = frame.drop(columns=column)
            elif chance.random() < 0.5:
                frame[column] = value
            else:
                frame.loc[chance.randrange(len(frame)), column] = value
        frame.convert_dtypes().to_parquet(path)
    except Exception:  # not every mixture of values is a column
        return
    _fit(path)


RUNS = ("run", "swept/run", "trained/run")
"""One model; many checkpoints of which only rows were kept; a training, with heads and what its steps say together."""


def _taken(seeds: Path, work: Path, chance: random.Random) -> None:
    """A run to be spoilt."""
    shutil.copytree(seeds / chance.choice(RUNS), work / "run")


def run_bytes(seeds: Path, work: Path, chance: random.Random) -> None:
    _taken(seeds, work, chance)
    _spoil_bytes(work / "run", chance)
    _read_run(work / "run", chance)


def manifest(seeds: Path, work: Path, chance: random.Random) -> None:
    _taken(seeds, work, chance)
    _spoil_manifest(work / "run", chance)
    _read_run(work / "run", chance)


def rows(seeds: Path, work: Path, chance: random.Random) -> None:
    _taken(seeds, work, chance)
    _spoil_rows(work / "run", chance)
    _read_run(work / "run", chance)


def readers(seeds: Path, work: Path, chance: random.Random) -> None:
    """Every command that reads a run, on a damaged one."""
    _taken(seeds, work, chance)
    shutil.copytree(work / "run", work / "other")
    if chance.random() < 0.5:
        _forget_derived(work / "run")
    chance.choice((_spoil_bytes, _spoil_manifest, _spoil_rows, _spoil_rows))(work / "run", chance)
    command(chance.choice(READERS), work)


def saved(seeds: Path, work: Path, chance: random.Random) -> None:
    """A saved state, and what a sweep remembers."""
    from isoscope.measuring.sweep_log import Ledger
    from isoscope.models.naming.suite import open_suite
    from isoscope.runs.run import Run
    from isoscope.runs.verify import verify

    (work / "cells").mkdir()
    kept = Run(work)
    kept.save_partial("a" * 24, {"items": 3, "tokens": 4}, {"x": __import__("numpy").zeros((3, 4))}.items)
    path = work / "partial" / f"{'a' * 24}.safetensors"
    path.write_bytes(mutated(path.read_bytes(), chance))
    kept.load_partial("a" * 24)
    seen = {"seed": None, "step": 0, "tensors": "", "matrices": "", "problem": "", "spec": "x", "revision": "y"}
    events = [{"suite": "suite", "place": "-/0", "seen": seen}, {"suite": "suite", "place": "-/10", "seen": seen | {"step": 10}}]
    events += [{"suite": "suite", "faults": ["one."]}, {"claimed": "a"}, {"released": "a"}]
    (work / "audit.jsonl").write_text("".join(f"{json.dumps(mutated_json(event, chance))}\n" for event in events))
    list(verify(work))
    suite = open_suite(str(seeds / "suite"))
    mine = Ledger(work)
    mine.records(suite)
    mine.revision(suite, suite.checkpoints[0])
    mine.claim("b")
    mine.record_faults(suite, [])


def resumed(seeds: Path, work: Path, chance: random.Random) -> None:
    """A sweep into a run of somebody else's: what is done is found in manifests and in what a sweep remembers."""
    from tests.measuring.many_cells import plan_sweep

    shutil.copytree(seeds / "swept" / "run", work / "run")
    for _ in range(chance.choice((1, 2))):
        with contextlib.suppress(ValueError):  # it was spoilt before
            _spoil_manifest(work / "run", chance)
    if chance.random() < 0.3:
        path = work / "run" / "audit.jsonl"
        path.write_bytes(mutated(path.read_bytes(), chance))
    sweep = plan_sweep(seeds / "swept" / "suite" / "many", seeds / "swept" / "data.txt", work / "run")
    for line in sweep.describe():
        line.encode()
    sweep.measure()
    sweep.find_faults()


def measured(seeds: Path, work: Path, chance: random.Random) -> None:
    """Measuring into somebody else's run, with what he left half done."""
    import isoscope

    shutil.copytree(seeds / "run", work / "run")
    (cell,) = (work / "run" / "cells").iterdir()
    if chance.random() < 0.5:
        chance.choice((_spoil_bytes, _spoil_manifest))(work / "run", chance)
    else:
        shutil.rmtree(cell)
        (work / "run" / "partial").mkdir(exist_ok=True)
        raw = (seeds / "partial.safetensors").read_bytes()
        if chance.random() < 0.5:
            header, body = _opened(raw)
            cursor = json.loads(header["__metadata__"]["cursor"])
            if chance.random() < 0.7:
                header["__metadata__"]["cursor"] = json.dumps(mutated_json(cursor, chance))
            else:
                header = mutated_json(header, chance)
            raw = _closed(header, body)
        else:
            raw = mutated(raw, chance)
        if chance.random() < 0.8:
            raw = raw[:-32] + hashlib.sha256(raw[:-32]).digest()
        (work / "run" / "partial" / f"{cell.name}.safetensors").write_bytes(raw)
    isoscope.measure(str(seeds / "models" / "safetensors"), str(seeds / "run.txt"), work / "run", quiet=True, **RUN)


def repairs(seeds: Path, work: Path, chance: random.Random) -> None:
    """A fitted repair from somewhere."""
    import numpy as np

    from isoscope import repair

    seed = chance.choice(_files(seeds / "repairs"))
    raw = seed.read_bytes()
    if chance.random() < 0.6:
        header, body = _opened(raw)
        about = header["__metadata__"]
        if chance.random() < 0.5:
            about["parameters"] = json.dumps(mutated_json(json.loads(about["parameters"]), chance))
        else:
            header = mutated_json(header, chance)
        raw = _closed(header, body)
    else:
        raw = mutated(raw, chance)
    (work / seed.name).write_bytes(raw)
    fitted = repair.load(work / seed.name)
    fitted.transform(np.ones((3, fitted.n_features_in_), dtype=np.float32))


def _load(path: Path, chance: random.Random) -> None:
    from isoscope.models.loading.load import family_for, load_model
    from isoscope.models.naming.model_name import resolve_model

    reference = resolve_model(("untrained:" if chance.random() < 0.15 else "") + str(path))
    family_for(reference)
    loaded = load_model(reference, device="cpu", allow_partial=chance.random() < 0.5)
    loaded.modality  # noqa: B018


def weights(seeds: Path, work: Path, chance: random.Random) -> None:
    shutil.copytree(seeds / "models" / chance.choice(("safetensors", "bin")), work / "model")
    path = next(path for path in _files(work / "model") if path.suffix in (".safetensors", ".bin"))
    raw = path.read_bytes()
    if path.suffix == ".safetensors" and chance.random() < 0.4:
        header, body = _opened(raw)
        path.write_bytes(_closed(mutated_json(header, chance), body))
    else:
        path.write_bytes(mutated(raw, chance))
    _load(work / "model", chance)


def config(seeds: Path, work: Path, chance: random.Random) -> None:
    """Configuration and tokenizer with other values in them."""
    shutil.copytree(seeds / "models" / "safetensors", work / "model")
    path = chance.choice([path for path in _files(work / "model") if path.suffix == ".json"] + [work / "model" / "config.json"])
    if chance.random() < 0.8:
        path.write_text(json.dumps(mutated_json(json.loads(path.read_text()), chance)))
    else:
        path.write_bytes(mutated(path.read_bytes(), chance))
    _load(work / "model", chance)


def kinds(seeds: Path, work: Path, chance: random.Random) -> None:
    """A model of any family with other values in what lies beside its weights: as far as its first batch."""
    shutil.copytree(chance.choice(sorted((seeds / "models" / "kinds").iterdir())), work / "model")
    path = chance.choice([path for path in _files(work / "model") if path.suffix == ".json"] + [work / "model" / "config.json"] * 2)
    path.write_text(json.dumps(mutated_json(json.loads(path.read_text()), chance)))
    _first_batch(work)


@cache
def _places(folder: Path, pattern: str) -> list[tuple[Path, tuple]]:
    """Every value of every such file."""
    return [(path, place) for path in sorted(folder.glob(pattern)) for place in leaves(json.loads(path.read_text()))]


def _in_turn(folder: Path, pattern: str, number: int) -> tuple[Path, object, int]:
    """A file and what it says with one value replaced, and how often all values had their turn before."""
    places = _places(folder, pattern)
    rounds, at = divmod(number * STRIDE, len(places) * len(EVERY))
    path, place = places[at // len(EVERY)]
    return path, replaced(json.loads(path.read_text()), place, EVERY[at % len(EVERY)]), rounds


def model_fields(seeds: Path, work: Path, chance: random.Random) -> None:
    """One value of what lies beside a model's weights, each in its turn."""
    path, found, _ = _in_turn(seeds / "models" / "kinds", "*/*.json", chance.number)
    shutil.copytree(path.parent, work / "model")
    (work / "model" / path.name).write_text(json.dumps(found))
    _first_batch(work)


def run_fields(seeds: Path, work: Path, chance: random.Random) -> None:
    """One value of a manifest, each in its turn, under one of the commands that read it."""
    from isoscope.runs.stored_cell import seal_manifest

    which = chance.choice(RUNS)
    path, found, rounds = _in_turn(seeds / which, "cells/*/manifest.json", chance.number)
    for name in ("run", "other"):
        shutil.copytree(seeds / which, work / name)
    with contextlib.suppress(UnicodeEncodeError):
        (work / "run" / path.relative_to(seeds / which)).write_text(seal_manifest(found), "utf-8")
    command(READERS[(chance.number + rounds) % len(READERS)], work)


def _forget_derived(run: Path) -> None:
    """Take away what was derived of other cells, so that it is derived again."""
    for cell in sorted((run / "cells").iterdir()):
        if "experiment" in json.loads((cell / "manifest.json").read_text())["identity"]:
            shutil.rmtree(cell)


@cache
def _arrays_of(path: Path) -> dict:
    """The saved statistics of a cell, by name."""
    from isoscope.runs.tensors import TensorFile

    with path.open("rb") as raw:
        file = TensorFile(raw)
        return {name: file.read(name) for name in file.names}


def _compute_all(folder: Path) -> None:
    """Every number and every curve that the statistics of a cell give."""
    from isoscope.metrics import curves, metrics, profiles
    from isoscope.runs.results import computable_metrics
    from isoscope.runs.rows import tables
    from isoscope.runs.stored_cell import Cell

    cell = Cell(folder)
    sites = cell.statistics()
    names = computable_metrics([entry.name for entry in [*metrics(), *profiles()]], sites) + [curve.name for curve in curves()]
    tables(sites, cell.manifest["columns"], cell.manifest["spec"], names=names)


def statistic_fields(seeds: Path, work: Path, chance: random.Random) -> None:
    """One array of saved statistics, each in its turn, under what computes numbers from them."""
    which = chance.choice(("run", "run", "trained/run"))
    sources = sorted((seeds / which).glob("cells/*/statistics.safetensors"))
    source = sources[chance.number % len(sources)]
    arrays = _arrays_of(source)
    rounds, at = divmod(chance.number * STRIDE, len(arrays) * len(CHANGES))
    for name in ("run", "other"):
        shutil.copytree(seeds / which, work / name)
    _forget_derived(work / "run")
    path = work / "run" / source.relative_to(seeds / which)
    spoil_array(path, arrays, *divmod(at, len(CHANGES)))
    _fit(path)
    if chance.random() < 0.5:
        _compute_all(path.parent)
    else:
        command(COMPUTING[(chance.number + rounds) % len(COMPUTING)], work)


def column_fields(seeds: Path, work: Path, chance: random.Random) -> None:
    """One column of a table, each value in its turn, in one row or in all, under one of the commands that read it."""
    import pandas as pd

    which = chance.choice(RUNS)
    sources = sorted((seeds / which).glob("cells/*/*.parquet"))
    source = sources[chance.number % len(sources)]
    frame = pd.read_parquet(source)
    values = [value for value in EVERY if not isinstance(value, list | dict)]
    rounds, at = divmod(chance.number * STRIDE, len(frame.columns) * len(values))
    column, value = frame.columns[at // len(values)], values[at % len(values)]
    for name in ("run", "other"):
        shutil.copytree(seeds / which, work / name)
    if chance.random() < 0.5:
        _forget_derived(work / "run")
        if not (work / "run" / source.relative_to(seeds / which)).exists():
            return
    path = work / "run" / source.relative_to(seeds / which)
    try:
        if value is GONE:
            frame = frame.drop(columns=column)
        elif chance.random() < 0.5:
            frame[column] = value
        else:
            frame[column] = frame[column].astype(object)
            frame.loc[chance.randrange(len(frame)), column] = value
        frame.convert_dtypes().to_parquet(path)
    except Exception:  # not every mixture of values is a column
        return
    _fit(path)
    command(READERS[(chance.number + rounds) % len(READERS)], work)


def _first_batch(work: Path) -> None:
    import isoscope

    isoscope.measure(str(work / "model"), "embedded", work / "run", quiet=True, max_items=1, max_tokens=32, sample=16, batch_size=1)


def gguf(seeds: Path, work: Path, chance: random.Random) -> None:
    raw = (seeds / "models" / "llama.gguf").read_bytes()
    head = raw[:1800]  # the header; values may be anything
    (work / "a.gguf").write_bytes(mutated(head, chance) + raw[1800:] if chance.random() < 0.8 else mutated(raw, chance))
    _load(work / "a.gguf", chance)


def whisper(seeds: Path, work: Path, chance: random.Random) -> None:
    import torch

    if chance.random() < 0.5:
        (work / "a.pt").write_bytes(mutated((seeds / "models" / "whisper.pt").read_bytes(), chance))
    else:
        found = torch.load(seeds / "models" / "whisper.pt", weights_only=True)
        found["dims"] = mutated_json(found["dims"], chance)
        torch.save(found, work / "a.pt")
    _load(work / "a.pt", chance)


TARGETS = (
    arrays,
    text,
    wiki,
    speech,
    images,
    run_bytes,
    manifest,
    rows,
    readers,
    saved,
    resumed,
    measured,
    repairs,
    weights,
    config,
    kinds,
    model_fields,
    run_fields,
    statistic_fields,
    column_fields,
    gguf,
    whisper,
    suites,
    words,
    cli,
    options,
)
