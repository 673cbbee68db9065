"""Measure what moves the numbers, on three models, and put the tables into docs/what-moves-these-numbers.md.

python tools/what_moves.py             some minutes on one thread; what runs/moves holds is not measured again

Each change is one run of `isoscope measure` that differs from the first in one option; tokens, the final norm and the number of points
are read off the first run itself.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

import isoscope

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "what-moves-these-numbers.md"
RUNS = ROOT / "runs" / "moves"
MODELS = {
    "all-MiniLM-L6-v2": "package:all-minilm-l6-v2",
    "SmolLM2-135M-Instruct": "package:smollm2-135m-instruct",
    "the embedded decoder": "src/isoscope/training/suites/decoder/seed-0/step-800",
}
LAYERS = {"SmolLM2-135M-Instruct": {"layers": "15,30,final"}}
"""Of a deep model only what the table shows, which takes a fifth of the time."""
FIRST = {"max_items": 32, "seq_len": 128, "split_body": ("sink",), "sample": 2048, "threads": 1}
CHANGES = {
    "sequences of at most 32 tokens": {"seq_len": 32},
    "bfloat16": {"dtype": "bfloat16"},
    "8 documents": {"max_items": 8},
    "64 documents": {"max_items": 64},
}
TOKENS = {
    "without special tokens": "no-special",
    "without special and first tokens": "body",
    "and without sinks": "body-no-sink",
}
METRICS = {"between_cosine": 3, "drift_ratio": 3, "top_share": 3, "effective_rank": 1, "two_nn": 1}
SIZES = "two_nn_sizes"


def measured(title: str, **change: object) -> isoscope.Results:
    """The run of a model with one option changed."""
    model = MODELS[title]
    words = "-".join(f"{name}-{value}" for name, value in change.items()) or "first"
    return isoscope.measure(
        str(ROOT / model), "embedded", RUNS / Path(model).stem / words, quiet=True, **(FIRST | LAYERS.get(title, {}) | change)
    )


def at(run: isoscope.Results, policy: str, layer: int, kind: str = "hidden") -> dict[str, float]:
    """The numbers of one layer."""
    table = run.table(policy="every")
    rows = table[table["kind"].eq(kind) & table["policy"].eq(policy) & table["layer"].eq(layer) & table["head"].isna()]
    return {name: float(value) for name, value in zip(rows["metric"], rows["value"], strict=True) if name in METRICS}


def row(words: str, numbers: dict[str, float]) -> str:
    """A line of a table in Markdown."""
    cells = [
        f"{numbers[name]:.{digits}f}" if numbers.get(name) == numbers.get(name) and name in numbers else "–"
        for name, digits in METRICS.items()
    ]
    return f"| {words} | {' | '.join(cells)} |"


def table_of(title: str) -> str:
    """All changes on one model, at its middle layer and, of the final norm, at its last."""
    first = measured(title)
    numbers = first.table()
    last = int(numbers.loc[numbers["kind"].eq("hidden"), "layer"].max())
    middle = (last + 1) // 2
    heads = f"| {title}, layer {middle} of {last} | {' | '.join(f'`{name}`' for name in METRICS)} |"
    lines = [heads, "|---" * (len(METRICS) + 1) + "|", row("**all tokens, 32 documents, 128 tokens, float32**", at(first, "all", middle))]
    lines += [row(words, at(first, policy, middle)) for words, policy in TOKENS.items()]
    lines += [row(words, at(measured(title, **change), "all", middle)) for words, change in CHANGES.items()]
    lines += [row(f"layer {last}, before the final norm", at(first, "all", last))]
    after = at(first, "all", last + 1, "final")
    lines += [row(f"layer {last}, after the final norm", after)] if after else []
    return "\n".join([*lines, "", sizes(first, middle)])


def sizes(run: isoscope.Results, layer: int) -> str:
    """How the dimension moves with the number of points, in a sentence."""
    curve: pd.DataFrame = run.series([SIZES])
    own = curve[curve["name"].eq(SIZES) & curve["policy"].eq("all") & curve["layer"].eq(layer) & curve["kind"].eq("hidden")]
    means = own.groupby("x")["y"].mean()
    said = ", ".join(f"{value:.1f} of {int(points):,}" for points, value in means.items())
    return f"`{SIZES}`, the same layer: dimension {said} points."


def main() -> int:
    """Measure, and replace what stands between the marks of the page."""
    found = "\n\n".join(map(table_of, MODELS))
    text = PAGE.read_text("utf-8") if PAGE.exists() else "<!-- measured -->\n<!-- end -->\n"
    made = re.sub(r"(<!-- measured.*?-->\n).*?(<!-- end -->)", lambda part: f"{part[1]}{found}\n{part[2]}", text, flags=re.DOTALL)
    PAGE.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
