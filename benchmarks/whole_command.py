"""What `isoscope measure` costs against a bare loop over the same batches, start-up included.

    python benchmarks/whole_command.py .cache/models/all-MiniLM-L6-v2
    python benchmarks/whole_command.py bert-base --taps hidden,attention --tokens 40000
    python benchmarks/whole_command.py .cache/models/all-MiniLM-L6-v2 --phases --tokens 40000

Both are processes of their own. The bare loop imports torch and transformers, loads the model and its tokenizer, tokenises the same text
and runs the batches that isoscope makes. Repeats are interleaved, so that a busy machine disturbs both alike; the table has medians
and the range. `bert-base` is a network of that size with random weights and MiniLM's tokenizer: time does not depend on the weights.
`--phases` runs the command once more and prints where its CPU time goes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MINILM = ".cache/models/all-MiniLM-L6-v2"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json")
RECORD = """
import sys
import numpy as np
from isoscope.measuring.model_feeder import ModelFeeder
from isoscope.measuring.options import Options
from isoscope.models.naming.model_name import resolve_model
from isoscope.sources import open_source

model, corpus, tokens, batches = sys.argv[1:]
feeder = ModelFeeder(resolve_model(model), open_source(corpus), Options(max_tokens=int(tokens)))
rows = [batch.run.args[0].arguments for window in feeder.windows() for batch in window]
np.savez(batches, **{f"{name}.{i}": tensor.numpy() for i, row in enumerate(rows) for name, tensor in row.items()})
"""
"""Write the arguments of every batch that isoscope feeds to a model, as one .npz."""
BARE = """
import sys
import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

model, corpus, batches = sys.argv[1:]
network, tokenizer = AutoModel.from_pretrained(model).eval(), AutoTokenizer.from_pretrained(model)
arrays, rows = np.load(batches), {}
count = sum(array.size for name in arrays.files if name.startswith("input_ids") for array in [arrays[name]])
tokenised = 0
for paragraph in open(corpus, encoding="utf-8").read().split("\\n\\n"):
    tokenised += len(tokenizer(paragraph)["input_ids"])
    if tokenised >= count:
        break
for name in arrays.files:
    argument, i = name.split(".")
    rows.setdefault(int(i), {})[argument] = torch.from_numpy(arrays[name])
with torch.inference_mode():
    for i in sorted(rows):
        network(**rows[i])
"""
"""The bare loop."""
PHASES = {
    "imports": ("builtins:__import__",),
    "loading": ("isoscope.measuring.model_feeder:load_model",),
    "forward": ("isoscope.measuring.model_feeder:ModelFeeder._forward",),
    "taps": ("isoscope.models.tapping.tap:Tap._deliver", "isoscope.measuring.single_pass:reduce_state"),
    "metrics": ("isoscope.measuring.cell:tables",),
    "neighbours": ("isoscope.estimation.resampled_neighbours:SharedSearch.among",),
    "intervals": ("isoscope.statistics.jackknife_groups:Groups.interval", "isoscope.estimation.cloud:Cloud.bootstrap_shifts"),
    "nulls": ("isoscope.estimation.cloud:isotropic_spectra", "isoscope.estimation.intrinsic_dimension:isotropic_level"),
    "writing": ("isoscope.runs.run:Run.write_cell",),
}
"""Functions whose time belongs to a phase, without that of the phases within."""


def make_corpus(path: Path, tokens: int) -> None:
    """Write paragraphs of the embedded text in random order, more than enough for this many tokens; each is a document."""
    from isoscope.sources.text import EMBEDDED

    texts = [paragraph for line in EMBEDDED.read_text("utf-8").splitlines() for paragraph in json.loads(line)["text"].split("\n\n")]
    rng, parts, length = random.Random(0), [], 0
    while length < 6 * tokens:  # a token is four or five characters
        part = "\n".join(rng.choices(texts, k=rng.randint(1, 4)))
        parts.append(part)
        length += len(part)
    path.write_text("\n\n".join(parts), "utf-8")


def make_bert_base(folder: Path) -> str:
    """Write a network of the size of BERT-base with random weights and MiniLM's tokenizer."""
    from transformers import BertConfig, BertModel

    BertModel(BertConfig(vocab_size=30522), add_pooling_layer=False).save_pretrained(folder)
    for name in TOKENIZER_FILES:
        if (file := Path(MINILM) / name).exists():
            shutil.copy(file, folder)
    return str(folder)


def run_process(command: list[str], threads: int) -> dict[str, float]:
    """CPU seconds, wall seconds, page faults and peak memory of a process and its children."""
    environment = os.environ | {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    started = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command[:4]} failed:\n{complaint.decode()[-2000:]}")
    return {
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": time.perf_counter() - started,
        "faults": usage.ru_minflt,
        "memory": usage.ru_maxrss / 1024,
    }


def measure_command(model: str, corpus: Path, tokens: int, taps: list[str], threads: int, out: Path) -> list[str]:
    """The command line of `isoscope measure`."""
    options = ["--data", str(corpus), "--max-tokens", str(tokens), "--threads", str(threads), *taps, "--out", str(out)]
    return ["-m", "isoscope", "measure", model, "--quiet", *options]


def profile_phases(arguments: list[str]) -> None:
    """Run a command line of isoscope in this process, and print the CPU seconds of each phase."""
    import importlib

    spent, open_phases = dict.fromkeys(("start-up", *PHASES, "everything else"), 0.0), []
    clock = time.process_time
    last = [clock()]

    def book() -> None:
        now = clock()
        spent[open_phases[-1] if open_phases else "everything else"] += now - last[0]
        last[0] = now

    def timed(function, phase):
        def call(*given, **named):
            book()
            open_phases.append(phase)
            try:
                return function(*given, **named)
            finally:
                book()
                open_phases.pop()

        return call

    spent["start-up"], last[0] = clock(), clock()
    modules = {name.split(":")[0] for names in PHASES.values() for name in names}
    gc.set_threshold(100_000)  # as `isoscope.cli.start` does
    for name in sorted(modules):
        importlib.import_module(name)
    from isoscope.cli import main

    spent["imports"], last[0] = clock() - last[0], clock()
    for phase, names in PHASES.items():
        for name in names:
            module, path = name.split(":")
            *owners, attribute = path.split(".")
            owner = importlib.import_module(module)
            for part in owners:
                owner = getattr(owner, part)
            setattr(owner, attribute, timed(getattr(owner, attribute), phase))
    sys.argv = ["isoscope", *arguments]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    book()
    for phase, seconds in spent.items():
        print(f"{phase:<16} {seconds:8.2f} s")
    print(f"{'together':<16} {sum(spent.values()):8.2f} s of {clock():.2f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default=MINILM, help="a folder, or bert-base")
    parser.add_argument("--tokens", type=int, nargs="+", default=[2_000, 40_000, 160_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--taps", default="hidden")
    parser.add_argument("--query-rows", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--phases", action="store_true", help="also print where the CPU time of the command goes")
    if sys.argv[1:2] == ["--run-phases"]:
        profile_phases(sys.argv[2:])
        return
    given = parser.parse_args()
    taps = ["--taps", given.taps, *(["--query-rows", str(given.query_rows)] if given.query_rows else [])]
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        model = make_bert_base(work / "bert-base") if given.model == "bert-base" else given.model
        corpus, batches = work / "corpus.txt", work / "batches.npz"
        make_corpus(corpus, max(given.tokens))
        print(f"{'tokens':>8} {'threads':>7}  {'':<14} {'isoscope':>9} {'bare':>9}  ratio (range)")
        for tokens in given.tokens:
            subprocess.run([sys.executable, "-c", RECORD, model, str(corpus), str(tokens), str(batches)], check=True)
            for threads in given.threads:
                pairs = []
                for repeat in range(given.repeats):
                    command = measure_command(model, corpus, tokens, taps, threads, work / f"run-{tokens}-{threads}-{repeat}")
                    ours = run_process([sys.executable, *command], threads)
                    bare = run_process([sys.executable, "-c", BARE, model, str(corpus), str(batches)], threads)
                    pairs.append((ours, bare))
                for quantity, unit in (("cpu", "s"), ("wall", "s"), ("faults", ""), ("memory", "MiB")):
                    ratios = sorted(ours[quantity] / bare[quantity] for ours, bare in pairs)
                    middle = [statistics.median(pair[side][quantity] for pair in pairs) for side in (0, 1)]
                    shown = " ".join(f"{value:>9,.0f}" if quantity in ("faults", "memory") else f"{value:>9.2f}" for value in middle)
                    label = f"{quantity}{', ' + unit if unit else ''}"
                    spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
                    print(f"{tokens:>8,} {threads:>7}  {label:<14} {shown}  {spread}", flush=True)
            if given.phases:
                command = measure_command(model, corpus, tokens, taps, given.threads[0], work / f"phases-{tokens}")
                subprocess.run([sys.executable, __file__, "--run-phases", *command[2:]], check=True)


if __name__ == "__main__":
    main()
