"""What is fuzzed of the command line: its words, its options, and the commands that read a run."""

import contextlib
import io
import os
import random
import re
import sys
import traceback
from functools import cache, partial
from pathlib import Path
from typing import get_type_hints

from tests.hostile.mutate import STRIDE, WORDS, mutated

READERS = (
    ["report", "run", "--out", "page.html"],
    ["report", "run", "--figures", "figures", "--only", "layer_profile", "--only", "spectrum", "--only", "training_geometry"],
    ["claims", "run", "--json"],
    ["claims", "run"],
    ["cite", "run"],
    ["compare", "run", "other", "--json"],
    ["compare-definitions", "run"],
    ["drift-test", "run"],
    ["dynamics", "run"],
    ["table", "run"],
    ["table", "run", "--json"],
    ["isotropic-null", "--run", "run"],
)
"""Commands that read a run."""


COMPUTING = (
    ["table", "run", "--metric", "cluster_share", "--metric", "gride", "--metric", "two_nn_mle", "--json"],
    ["table", "run", "--metric", "local_isoscore", "--metric", "hubness", "--metric", "levina_bickel", "--metric", "two_nn_batches"],
    ["compare-definitions", "run"],
    ["dynamics", "run"],
    ["compare", "run", "other", "--json"],
    ["claims", "run"],
    ["verify", "run"],
    ["report", "run", "--out", "page.html"],
)
"""Commands that compute numbers from saved statistics."""


def _word(seed: str, chance: random.Random) -> str:
    return mutated(seed.encode(), chance).decode("utf-8", "replace").replace("\0", "")


def suites(seeds: Path, work: Path, chance: random.Random) -> None:
    from isoscope.models.naming.suite import open_suites

    word = partial(_word, chance=chance)
    where = chance.choice((str(seeds / "suite"), str(seeds / "suite") + "/checkpoint-{step}", "./x-{seed}-{step}k", "embedded"))
    steps = chance.choice((None, word("0,10,40-200:20"), word("1-512:x2"), word("0-4")))
    open_suites([word(where) if chance.random() < 0.5 else where], steps, chance.choice((None, word("0-4"))))


def words(seeds: Path, work: Path, chance: random.Random) -> None:
    from isoscope.measuring.options import Options, parse_layers, parse_shard, parse_taps
    from isoscope.models.naming.model_name import resolve_model
    from isoscope.sources import open_source

    word = partial(_word, chance=chance)

    def place(seed: str) -> str:
        """A path or pattern; never one that goes through this whole machine, which takes as long as it takes."""
        found = word(seed)
        return found if not found or found.startswith(str(seeds)) else f"{seeds}/{found}"

    which = chance.randrange(7)
    if which == 0:
        Options(layers=word("0,4-8,-1"), shard=parse_shard(word("1/4")), taps=parse_taps(word("hidden,attention")))
    elif which == 1:
        open_source(word("hf:wikitext?config=a&split=b&revision=c"), None, "text")
    elif which == 2:
        open_source(f"{seeds}/text/{word('*.txt').replace('..', '.')}", word("text"), chance.choice(("text", "speech", "images")))
    elif which == 3:
        resolve_model(word(chance.choice(("org/name@rev::x.gguf", "untrained:org/name", "./folder", "~/x"))))
    elif which == 4:
        open_source(place(str(seeds / "wiki" / "a.xml") + "?alphabet=frequent"), None, "text")
    elif which == 5:
        parse_layers(word("0,3,6-8,-1,final"))
    else:
        Options(second_moments=word("all"), split_body=(word("sink"),), image_maps=word("both"), store=word("rows"))


UNFINISHED = ("verify", "sweep")
"""Commands that end with 1 where what they found, or could not do, is listed; for any other 1 is a bug."""
ACCIDENTS = (TypeError, AttributeError, NameError, AssertionError, ArithmeticError, RecursionError)
"""What no reader of ours raises on purpose to say that a file is damaged."""


def command(line: list[str], work: Path, code: int | None = None, sentence: str = "") -> int:
    """How a command ends: with 0, or with 2 and a sentence; with this code and sentence, where they are given."""
    from unittest import mock

    from isoscope import cli
    from isoscope.core.errors import IsoscopeError

    out, err, refusals = io.StringIO(), io.StringIO(), []
    before = os.getcwd()
    os.chdir(work)
    try:
        with (
            mock.patch.object(sys, "argv", ["isoscope", *line]),
            mock.patch.object(cli, "_show_traceback_if_debugging", side_effect=lambda: refusals.append(sys.exc_info()[1])),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            cli.main()
    except SystemExit as end:
        said, ended = err.getvalue(), end.code or 0
    finally:
        os.chdir(before)
    assert "Traceback" not in said, digest(said)
    assert "\x1b" not in said, said[-500:]
    assert ended in (0, 2) or (ended == 1 and line[0] in UNFINISHED), (ended, said[-500:])
    if ended == 2:
        last = (said.splitlines() or [""])[-1]
        # The parser of options answers in a box, under a line of usage wherever it knows the command.
        assert last.startswith("isoscope: ") or "Usage: " in said or "─ Error ─" in said, said[-500:]
    for error in refusals:
        assert not (hidden := hidden_bug(error)), hidden
        # A run is refused where it is read, by a sentence about it; its numbers may not ask for more memory than there is.
        assert line not in (*READERS, *COMPUTING) or isinstance(error, IsoscopeError), f"{type(error).__name__}: {error}"
    assert code is None or ended == code, (ended, said[-500:])
    assert sentence in said, said[-500:]
    return ended


def digest(said: str) -> str:
    """Of what was written with tracebacks: each exception, and the line of isoscope's that it came through last."""
    found, frame = {}, ""
    for line in said.splitlines():
        if place := re.search(r'File ".*/isoscope/(\S+)", line (\d+)', line):
            frame = f"{place[1]}:{place[2]}"
        elif raised := re.search(r"^[ |]*([A-Za-z_.]+(?:Error|Exception|Iteration): .*)", line):
            found.setdefault(f"{raised[1][:120]} at {frame}")
    return "; ".join(list(found)[:6]) or said[-300:]


def hidden_bug(error: BaseException) -> str:
    """The exception behind a refusal that a line of isoscope's raised and nobody meant to; nothing where there is none."""
    from isoscope.models.model_errors import is_raised_by_us

    cause = error.__cause__ or error.__context__  # the second where nobody wrote `from error`
    while cause is not None:
        if isinstance(cause, ACCIDENTS) and is_raised_by_us(cause):
            frame = traceback.extract_tb(cause.__traceback__)[-1]
            if not (frame.line or "").startswith("raise "):
                return f"{error} hides {type(cause).__name__}: {cause} at {frame.filename.rpartition('isoscope/')[2]}:{frame.lineno}"
        cause = cause.__cause__ or cause.__context__
    return ""


def lines(seeds: Path) -> list[list[str]]:
    """Commands as people write them; all but the last two end with 0."""
    run, matrix = str(seeds / "run"), str(seeds / "arrays" / "c.npy")
    return [
        ["table", run, "--metric", "mean_cosine", "--policy", "body"],
        ["verify", run, "--json"],
        ["embeddings", matrix, "--metric", "mean_cosine", "--sample", "64", "--json"],
        ["merge", run, "--out", "merged"],
        ["drift-test", run, "--json"],
        ["list", "metrics"],
        ["compare-definitions", matrix, "--json"],
        ["cite", run],
        ["compare", run, run, "--metric", "mean_cosine"],
        ["claims", run],
        ["measure", "./nothing", "--layers", "0,1", "--shard", "1/4", "--max-tokens", "10", "--seed", "1"],
        ["sweep", "./nothing-{step}", "--steps", "0,1-512:x2", "--seeds", "0-4"],
    ]


def cli(seeds: Path, work: Path, chance: random.Random) -> None:
    """Words of the command line."""
    line = chance.choice(lines(seeds))
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
    if line[0] in ("serve", "train", "reproduce", "untrained-block", "isotropic-null"):
        return
    command(line, _deep(work))


def _deep(work: Path) -> Path:
    """A folder far within: names that lead out of it do not lead out of what is removed."""
    place = work.joinpath(*"abcdef")
    place.mkdir(parents=True)
    return place


OPTIONS = ("", "-1", "0", "1", "2", "1.5", "2147483648", str(1 << 63), "9" * 30, "nan", "inf", "-inf", "1e400", "x" * 5000, "a,b", ",")
OPTIONS += ("-", "0-99999999999", "1-9999999999:x1", "/dev/zero", "/dev/null", "../../..", "[" * 3000, "𝟙٣", "{step}", "auto", "all")
OPTIONS += ("1/0", "a=b")
"""What may stand behind any option."""
TIME = ("train --steps", "untrained-block --draws")
"""Who asks for more of these gets it, however long it takes."""


def jobs(seeds: Path) -> list[list[str]]:
    """Every command with little to do."""
    run, model, text = str(seeds / "run"), str(seeds / "models" / "safetensors"), str(seeds / "run.txt")
    small = ["--data", text, "--max-items", "2", "--sample", "8", "--taps", "hidden,attention", "--processes", "1", "-q", "--out", "out"]
    return [
        ["measure", model, *small],
        ["sweep", str(seeds / "trained" / "suite"), "--seeds", "0", "--steps", "0,10", *small],
        ["train", "causal-text", "--data", text, "--steps", "1", "--width", "8", "--heads", "2", "--layers", "1", "--length", "8", "-q"],
        [
            "untrained-block",
            "--d",
            "8",
            "--heads",
            "2",
            "--length",
            "8",
            "--draws",
            "1",
            "--batch",
            "1",
            "--vocabulary",
            "9",
            "--norms",
            "0,1",
            "-q",
        ],
        ["embeddings", str(seeds / "arrays" / "c.npy"), "--metric", "mean_cosine", "--sample", "8"],
        ["isotropic-null", "--d", "16", "--n", "32", "-q"],
        ["reproduce", "godey2024", "--dry-run", "--out", "out"],
        ["table", run, "--metric", "mean_cosine"],
        ["report", run, "--out", "page.html", "--figures", "figures", "--only", "layer_profile"],
        ["claims", run],
        ["compare", run, run, "--metric", "mean_cosine"],
        ["compare-definitions", run],
        ["drift-test", run],
        ["dynamics", str(seeds / "trained" / "run")],
        ["merge", run, "--out", "out"],
        ["verify", run],
        ["cite", run],
        ["list", "metrics"],
    ]


@cache
def options_of(name: str) -> list[str]:
    """The options of a command that take a value."""
    from isoscope.cli.app import list_verbs

    (run,) = (verbs[name] for verbs in list_verbs().values() if name in verbs)
    hints = {option: str(hint) for option, hint in get_type_hints(run, include_extras=True).items()}
    return ["--" + option.replace("_", "-") for option, hint in hints.items() if "Option" in hint and "[bool" not in hint]


def options(seeds: Path, work: Path, chance: random.Random) -> None:
    """Every option of every command with every value, each in its turn."""
    each = [(line, option) for line in jobs(seeds) for option in options_of(line[0])]
    at, which = divmod(chance.number * STRIDE % (len(each) * len(OPTIONS)), len(OPTIONS))
    line, option = each[at]
    if f"{line[0]} {option}" not in TIME or not OPTIONS[which].isdecimal():
        command([*line, option, OPTIONS[which]], _deep(work))
