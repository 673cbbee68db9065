"""Damaged files into everything that parses, in a process with limits; whatever is not an answer or one sentence is a find.

    python -m tests.hostile.fuzz --seconds 300 --seed 1
    python -m tests.hostile.fuzz --case config:1234

A case is a target and a number, and can be run again by them. A find is an exception that is no IsoscopeError, a process that dies,
more than `PATIENCE` seconds, or more than `GROWTH` bytes beyond what the process had taken before.
"""

import argparse
import contextlib
import gc
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

from tests.hostile.mutate import VALUES, WORDS, mutated, mutated_json

PATIENCE = 20
GROWTH = 600 << 20
ADDRESSES = 3 << 30
RENEWED = 400
"""Cases after which the process is replaced by a fresh one."""
METRICS = ["mean_cosine", "effective_rank"]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _damaged(seeds: Path, kind: str, work: Path, chance: random.Random) -> Path:
    """A file of a kind, spoilt."""
    seed = chance.choice(_files(seeds / kind))
    path = work / seed.name
    path.write_bytes(mutated(seed.read_bytes(), chance))
    return path


def arrays(seeds: Path, work: Path, chance: random.Random) -> None:
    from isoscope.engine.geometry import geometry

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
    from isoscope.sources.speech import resampled

    for item in open_source(str(_damaged(seeds, "speech", work, chance)), None, "speech").items():
        resampled(item.content.samples, item.content.rate, 16_000)


def images(seeds: Path, work: Path, chance: random.Random) -> None:
    _source(seeds, work, chance, "images", "images")


def _read_run(run: Path, chance: random.Random) -> None:
    """A run as its readers read it; `verify` must answer whatever it holds."""
    from isoscope.engine.progress import Progress
    from isoscope.engine.requested import on_request
    from isoscope.engine.results import Results, merge
    from isoscope.store.verify import size_of, verify

    size_of(run)
    for one in verify(run):
        str(one)
    what = chance.choice(("table", "series", "more", "merge", "drift", "page"))
    results = Results(run)
    if what == "table":
        results.table()
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
        on_request(results, ["two_nn"], Progress(quiet=True))


def run_bytes(seeds: Path, work: Path, chance: random.Random) -> None:
    """Any file of a run, its hash not made to fit or made so."""
    shutil.copytree(seeds / "run", work / "run")
    path = chance.choice(_files(work / "run"))
    path.write_bytes(mutated(path.read_bytes(), chance))
    if path.name != "manifest.json" and chance.random() < 0.8:
        _fit(path)
    _read_run(work / "run", chance)


def _fit(path: Path) -> None:
    from isoscope.store.manifest import sealed
    from isoscope.store.writing import sha256

    manifest = json.loads((path.parent / "manifest.json").read_text())
    manifest["files"][path.name] = {"bytes": path.stat().st_size, "sha256": sha256(path)}
    (path.parent / "manifest.json").write_text(sealed(manifest))


def manifest(seeds: Path, work: Path, chance: random.Random) -> None:
    """A manifest with other values in it, its seal made to fit."""
    from isoscope.store.manifest import sealed

    shutil.copytree(seeds / "run", work / "run")
    path = next((work / "run" / "cells").iterdir()) / "manifest.json"
    found = mutated_json(json.loads(path.read_text()), chance)
    with contextlib.suppress(UnicodeEncodeError):
        path.write_text(sealed(found) if isinstance(found, dict) else json.dumps(found), "utf-8")
    _read_run(work / "run", chance)


def rows(seeds: Path, work: Path, chance: random.Random) -> None:
    """A table with strange values in it, its hash made to fit."""
    import pandas as pd

    shutil.copytree(seeds / "run", work / "run")
    cell = next((work / "run" / "cells").iterdir())
    path = cell / chance.choice(("rows.parquet", "series.parquet"))
    frame = pd.read_parquet(path).astype(object)
    try:
        for _ in range(chance.choice((1, 3))):
            column = chance.choice(list(frame.columns))
            value = chance.choice([value for value in VALUES if not isinstance(value, list | dict)])
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
    _read_run(work / "run", chance)


def partial(seeds: Path, work: Path, chance: random.Random) -> None:
    """A saved state, and what a sweep remembers."""
    from isoscope.engine.ledger import Ledger
    from isoscope.models.suite import open_suite
    from isoscope.store.run import Run
    from isoscope.store.verify import verify

    (work / "cells").mkdir()
    kept = Run(work)
    kept.save_partial("a" * 24, {"items": 3, "tokens": 4}, {"x": __import__("numpy").zeros((3, 4))}.items)
    path = work / "partial" / f"{'a' * 24}.safetensors"
    path.write_bytes(mutated(path.read_bytes(), chance))
    kept.load_partial("a" * 24)
    seen = {"seed": None, "step": 0, "tensors": "", "matrices": "", "problem": "", "spec": "x", "revision": "y"}
    ledger = {"suites": {"suite": {"checkpoints": {"-/0": seen, "-/10": seen | {"step": 10}}, "faults": []}}, "downloaded": ["a"]}
    (work / "audit.json").write_text(json.dumps(mutated_json(ledger, chance)))
    list(verify(work))
    suite = open_suite(str(seeds / "suite"))
    mine = Ledger(work)
    mine.seen(suite)
    mine.revision(suite, suite.checkpoints[0])
    mine.claim("b")
    mine.judge(suite, [])


def _load(path: Path, chance: random.Random) -> None:
    from isoscope.models.load import family_for, load
    from isoscope.models.reference import resolve

    reference = resolve(("untrained:" if chance.random() < 0.15 else "") + str(path))
    family_for(reference)
    loaded = load(reference, device="cpu", allow_partial=chance.random() < 0.5)
    loaded.modality  # noqa: B018


def weights(seeds: Path, work: Path, chance: random.Random) -> None:
    shutil.copytree(seeds / "models" / chance.choice(("safetensors", "bin")), work / "model")
    path = next(path for path in _files(work / "model") if path.suffix in (".safetensors", ".bin"))
    raw = path.read_bytes()
    if path.suffix == ".safetensors" and chance.random() < 0.4:
        size = int.from_bytes(raw[:8], "little")
        header = json.dumps(mutated_json(json.loads(raw[8 : 8 + size]), chance)).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header + raw[8 + size :])
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


def suites(seeds: Path, work: Path, chance: random.Random) -> None:
    from isoscope.models.suite import open_suites

    def word(seed: str) -> str:
        return mutated(seed.encode(), chance).decode("utf-8", "replace").replace("\0", "")

    def place(seed: str) -> str:
        """A path or pattern; never one that goes through this whole machine, which takes as long as it takes."""
        found = word(seed)
        return found if not found or found.startswith(str(seeds)) else f"{seeds}/{found}"

    where = chance.choice((str(seeds / "suite"), str(seeds / "suite") + "/checkpoint-{step}", "./x-{seed}-{step}k", "embedded"))
    steps = chance.choice((None, word("0,10,40-200:20"), word("1-512:x2"), word("0-4")))
    open_suites([word(where) if chance.random() < 0.5 else where], steps, chance.choice((None, word("0-4"))))


def words(seeds: Path, work: Path, chance: random.Random) -> None:
    from isoscope.engine.options import Options, parse_layers, parse_shard, parse_taps
    from isoscope.models.reference import resolve
    from isoscope.sources import open_source

    def word(seed: str) -> str:
        return mutated(seed.encode(), chance).decode("utf-8", "replace").replace("\0", "")

    def place(seed: str) -> str:
        """A path or pattern; never one that goes through this whole machine, which takes as long as it takes."""
        found = word(seed)
        return found if not found or found.startswith(str(seeds)) else f"{seeds}/{found}"

    parse_layers(word("0,3,6-8,-1,final"))
    which = chance.randrange(6)
    if which == 0:
        Options(layers=word("0,4-8,-1"), shard=parse_shard(word("1/4")), taps=parse_taps(word("hidden,attention")))
    elif which == 1:
        open_source(word("hf:wikitext?config=a&split=b&revision=c"), None, "text")
    elif which == 2:
        open_source(f"{seeds}/text/{word('*.txt').replace('..', '.')}", word("text"), chance.choice(("text", "speech", "images")))
    elif which == 3:
        resolve(word(chance.choice(("org/name@rev::x.gguf", "untrained:org/name", "./folder", "~/x"))))
    elif which == 4:
        open_source(place(str(seeds / "wiki" / "a.xml") + "?alphabet=frequent"), None, "text")
    else:
        Options(gram=word("all"), split=(word("sink"),), maps=word("both"), keep=word("rows"))


def cli(seeds: Path, work: Path, chance: random.Random) -> None:
    """Words of the command line; it ends with 0, 1 or 2 and without a traceback."""
    from unittest import mock

    from isoscope.cli import main

    run, matrix = str(seeds / "run"), str(seeds / "arrays" / "c.npy")
    lines = (
        ["table", run, "--metric", "mean_cosine", "--policy", "body"],
        ["verify", run, "--json"],
        ["embeddings", matrix, "--metric", "mean_cosine", "--sample", "64", "--json"],
        ["merge", run, "--out", str(work / "merged")],
        ["drift", run, "--json"],
        ["list", "metrics"],
        ["conventions", matrix, "--json"],
        ["measure", str(work / "nothing"), "--layers", "0,1", "--shard", "1/4", "--max-tokens", "10", "--seed", "1"],
        ["sweep", str(work / "nothing-{step}"), "--steps", "0,1-512:x2", "--seeds", "0-4"],
        ["cite", run],
        ["compare", run, run, "--metric", "mean_cosine"],
        ["claims", run],
    )
    line = list(chance.choice(lines))
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(len(line))
        what = chance.random()
        if what < 0.5:
            line[at] = mutated(line[at].encode("utf-8", "surrogateescape"), chance).decode("utf-8", "surrogateescape").replace("\0", "")
        elif what < 0.7:
            del line[at]
        else:
            line.insert(at, chance.choice(WORDS).decode("utf-8", "surrogateescape").replace("\0", ""))
        if not line:
            return
    if line[0] in ("serve", "train", "reproduce", "block", "baseline"):
        return
    out, err = io.StringIO(), io.StringIO()
    before = os.getcwd()
    os.chdir(work)
    try:
        with mock.patch.object(sys, "argv", ["isoscope", *line]), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        said, code = err.getvalue(), end.code
    finally:
        os.chdir(before)
    assert code in (0, 1, 2, None), code
    assert "Traceback" not in said, said[-500:]
    assert "\x1b" not in said, said[-500:]


TARGETS = (arrays, text, wiki, speech, images, run_bytes, manifest, rows, partial, weights, config, gguf, whisper, suites, words, cli)
OFTEN = {"weights": 2, "config": 2, "gguf": 2, "whisper": 1}
"""How often a target is taken of eight times; the others always are. Loading a model takes longest."""


def one_case(target: str, number: int, seeds: Path) -> str:
    """`answered`, `refused`, or what was raised."""
    from isoscope.core.errors import IsoscopeError

    chance = random.Random(f"{target} {number}")
    with tempfile.TemporaryDirectory(prefix="isoscope-fuzz-") as work, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            globals()[target](seeds, Path(work), chance)
            return "answered"
        except IsoscopeError as error:
            return "refused" if str(error) else "an error without a word"
        except OSError as error:  # the command line makes a sentence of these
            return "refused" if error.errno and error.filename else _told(error)
        except BaseException as error:
            return _told(error)


def _told(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/isoscope/" in frame.filename] or [
        *traceback.extract_tb(error.__traceback__)
    ]
    last = frames[-1]
    return f"{type(error).__name__}: {str(error)[:200]!r} at {last.filename.rpartition('isoscope/')[2]}:{last.lineno}"


def _worker(pipe, seeds: str) -> None:
    """Cases from a pipe, answers into it, within limits."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)  # what C libraries print of damaged files
    one_case("weights", 0, Path(seeds))  # whatever is imported late counts as there
    gc.collect()
    gc.freeze()
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (taken + ADDRESSES,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    high = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    while (case := pipe.recv()) is not None:
        said = one_case(*case, Path(seeds))
        now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if now - high > GROWTH:
            said = f"memory: {(now - high) >> 20} MB more, and then {said}"
        high = max(high, now)
        pipe.send(said)


class Workers:
    """One process at a time; one that hangs or dies is replaced."""

    def __init__(self, seeds: Path) -> None:
        self.seeds, self.done = seeds, 0
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_worker, args=(theirs, str(self.seeds)), daemon=True)
        self.process.start()
        theirs.close()
        self.done, self.fresh = 0, True

    def stop(self) -> None:
        self.process.kill()
        self.process.join()

    def run(self, target: str, number: int) -> str:
        if self.done >= RENEWED:
            self.stop()
            self._start()
        self.done += 1
        self.pipe.send((target, number))
        try:
            if self.pipe.poll(PATIENCE + (60 if self.fresh else 0)):
                self.fresh = False
                return str(self.pipe.recv())
            said = f"hangs: more than {PATIENCE} seconds"
        except EOFError:
            said = "dies"
        self.process.kill()
        self.process.join()
        said += f" (exit code {self.process.exitcode})"
        self._start()
        return said


def fuzz(seconds: float, seed: int, seeds: Path, only: list[str] | None = None, log=None) -> tuple[Counter, dict[str, str]]:
    """Cases for so many seconds: how many ended how, and the finds by case."""
    counts: Counter = Counter()
    finds: dict[str, str] = {}
    workers, number = Workers(seeds), seed * 10_000_000
    workers.run("words", 0)  # the imports of the first process do not count
    end = time.monotonic() + seconds
    names = only or [target.__name__ for target in TARGETS]
    try:
        while time.monotonic() < end:
            for name in names:
                if only is None and number % 8 >= OFTEN.get(name, 8):
                    continue
                said = workers.run(name, number)
                word = said if said in ("answered", "refused") else "finds"
                counts[f"{name} {word}"] += 1
                if word == "finds":
                    finds[f"{name}:{number}"] = said
                    if log:
                        print(f"{name}:{number}  {said}", file=log, flush=True)
                if time.monotonic() >= end:
                    break
            number += 1
    finally:
        workers.stop()
    return counts, finds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", help="one case again: target:number")
    parser.add_argument("--only", action="append", help="only this target; may be repeated")
    given = parser.parse_args()
    from tests.hostile.seeds import write_seeds

    with tempfile.TemporaryDirectory(prefix="isoscope-seeds-") as folder:
        seeds = Path(folder) / "seeds"
        write_seeds(seeds)
        if given.case:
            target, _, number = given.case.partition(":")
            globals()[target](seeds, Path(tempfile.mkdtemp()), random.Random(f"{target} {int(number)}"))
            return
        started = time.monotonic()
        counts, finds = fuzz(given.seconds, given.seed, seeds, given.only, sys.stdout)
    for name, count in sorted(counts.items()):
        print(f"{name:24}{count:8,}")
    print(f"{sum(counts.values()):,} cases in {time.monotonic() - started:,.0f} s, {len(finds)} finds")
    raise SystemExit(bool(finds))


if __name__ == "__main__":
    main()
