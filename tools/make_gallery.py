"""Draw every figure of `isoscope list figures` from real runs and write docs/gallery.md.

python tools/make_gallery.py           measures what is missing in runs/ (RUNS says how), draws docs/gallery/*.svg, writes the page
python tools/make_gallery.py NAME …    draws these figures only, and writes the page

Models and data are fetched by package name. `make gallery` draws the metrics, too. `tools/make_docs.py --check` checks the page's
text and draws nothing.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE, PICTURES = ROOT / "docs" / "gallery.md", ROOT / "docs" / "gallery"
OPTIONS = "--max-items 24 --seq-len 128 --taps hidden,attention --query-rows 32 --sample 1024 --threads 1"
MINILM = "package:all-minilm-l6-v2"
PHOTOGRAPHS = "--data package:photographs"
RUNS = {
    "runs/gallery": [
        f"isoscope measure {MINILM} untrained:{MINILM} package:smollm2-135m-instruct "
        "package:flan-t5-small-encoder package:rxnmapper package:antiberty package:whisper-tiny.en package:dinov2-small "
        f"--data rxnmapper=package:reactions --data antiberty=package:residues --data package:speech {PHOTOGRAPHS} "
        f"--data embedded {OPTIONS} --out runs/gallery",
        f"isoscope measure package:resnet-50 {PHOTOGRAPHS} --max-items 24 --sample 1024 --threads 1 --out runs/gallery",
    ],
    "runs/gallery-minilm": [f"isoscope measure {MINILM} untrained:{MINILM} {OPTIONS} --out runs/gallery-minilm"],
    "runs/gallery-local": [
        "isoscope measure src/isoscope/training/suites/decoder/seed-0/step-800 --max-items 16 --layers 1-6 --sample 600 --threads 1 "
        "--out runs/gallery-local"
    ],
    "runs/gallery-block": [
        "isoscope untrained-block --draws 2 --batch 2 --length 128 --norms 0,0.5,1,2,5,10,20,30 --threads 1 --out runs/gallery-block"
    ],
    "runs/report": ["isoscope sweep embedded --max-items 32 --batch-size 32 --query-rows 32 --sample 512 --out runs/report"],
}
"""The runs that figures are drawn from, and the commands of each."""
SHOWS = {
    "runs/gallery": "eight real models and one untrained twin, 24 items each",
    "runs/gallery-minilm": "all-MiniLM-L6-v2 and the same network untrained, 24 documents",
    "runs/gallery-local": "the last step of the embedded decoder, 16 documents: these numbers take seconds a layer",
    "runs/gallery-block": "the untrained block, two draws",
    "runs/report": "the two trainings that come with isoscope, as `make report` measures them",
}
ONE_MODEL = (
    "attention_heads",
    "dimension_share",
    "layer_profile",
    "norms",
    "policy_difference",
    "query_key_alignment",
    "spectrum",
)
"""Figures with so many panels a model that one model is enough."""
ALSO = {
    "dimension_scales": ("gride_scales",),
    "dimension_sizes": ("two_nn_sizes",),
    "local_isotropy": ("local_share", "local_share_excess"),
}
CHANCE = "cosine_density"
DIGITS = re.compile(r'(?<!opacity=")-?\d+\.\d{2,}')
TOPICS = {
    "The models": "runs/gallery",
    "One model, closer": "runs/gallery-minilm",
    "Neighbourhoods": "runs/gallery-local",
    "The untrained block": "runs/gallery-block",
    "Over training": "runs/report",
    "Chance": "",
}


def run_of(name: str) -> str:
    """The run that a figure is drawn from; nothing for what is in closed form."""
    if name == CHANCE:
        return ""
    if name in ALSO:
        return "runs/gallery-local"
    by_prefix = {"block": "runs/gallery-block", "training": "runs/report"}
    return by_prefix.get(name.partition("_")[0], "runs/gallery-minilm" if name in ONE_MODEL else "runs/gallery")


def command_of(name: str) -> str:
    """The command that draws a figure."""
    if not run_of(name):
        return "isoscope isotropic-null --out figures/"
    also = "".join(f" --metric {metric}" for metric in ALSO.get(name, ()))
    return f"isoscope report {run_of(name)} --only {name}{also} --figures figures/"


def page() -> str:
    """docs/gallery.md, from the registry of figures and the papers."""
    from isoscope.figures import figures
    from isoscope.report.paper_verdicts import figure_citations

    known = figure_citations()
    own = [figure for figure in figures if figure.function.__module__.startswith("isoscope.figures.")]
    parts = [
        "<!-- Written by tools/make_gallery.py from the figures' own titles and captions; change those in src/isoscope/figures. -->",
        "# Gallery",
        f"Every figure that isoscope draws, {len(own)} of them, each from a real run, with the command that draws it. `make gallery`\n"
        "measures what is missing and draws them again. On the page that `isoscope report` writes the same charts have\n"
        "tooltips and switches.",
    ]
    for topic, run in TOPICS.items():
        parts += [f"## {topic}"]
        parts += [f"From {SHOWS[run]}:", "\n".join(f"    {command}" for command in RUNS[run])] if run else []
        for figure in own:
            if run_of(figure.name) == run:
                source = f" *{known[figure.name]}.*" if figure.name in known else ""
                parts += [f"### {figure.name}", f"**{figure.title}.**{source} {figure.caption}"]
                parts += [f"![{figure.title}](gallery/{figure.name}.svg)", f"    {command_of(figure.name)}"]
    return "\n\n".join(parts) + "\n"


def light(svg: str) -> str:
    """A picture without what only a screen reader or a browser's pointer would ask of each mark, and with coordinates to a tenth."""
    svg = re.sub(r' (?:aria-[a-z]+|role|pointer-events|class)="[^"]*"', "", svg)
    svg = re.sub(r' (?:(?:fill-|stroke-)?opacity="1"|stroke-width="1"|font-weight="normal")', "", svg)
    svg = re.sub(r'<path d="(?:M0,0h[\d.]+v[\d.]+h-[\d.]+Z)?"(?: display="none")?/>', "", svg)
    svg = re.sub(r"<[^>]+>", lambda tag: DIGITS.sub(lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), tag[0]), svg)
    for _ in range(4):
        svg = re.sub(r"<g(?: transform=\"translate\(0,0\)\")?></g>", "", svg)
    typefaces = set(re.findall(r' font-family="[^"]*"', svg))
    for typeface in typefaces if len(typefaces) == 1 else ():
        svg = svg.replace(typeface, "").replace("<svg", f"<svg{typeface}", 1)
    return svg


def measure_missing() -> None:
    """Carry out the commands whose runs are not there."""
    for run, commands in RUNS.items():
        for command in commands if not (ROOT / run).exists() else ():
            subprocess.run([sys.executable, "-m", *shlex.split(command)], cwd=ROOT, check=True)


def draw(names: list[str]) -> Iterator[Path]:
    """Draw these figures, run by run."""
    from isoscope.cli.report import read_runs
    from isoscope.report import write_figures
    from isoscope.studies.isotropic_null.experiment import DIMENSIONS, isotropic_tables

    for run in ["", *RUNS]:
        own = [name for name in names if run_of(name) == run]
        if not own:
            continue
        if run:
            table, series, _ = read_runs([str(ROOT / run)], [metric for name in own for metric in ALSO.get(name, ())])
        else:
            table, series = isotropic_tables(DIMENSIONS, 4096)
        for path in write_figures(table, series, PICTURES, formats=("svg",), names=own):
            path.write_text(light(path.read_text("utf-8")), "utf-8")
            yield path


def main() -> int:
    """Measure, draw, write."""
    from isoscope.figures import figures

    names = sys.argv[1:] or [figure.name for figure in figures]
    measure_missing()
    drawn = list(draw(names))
    for name in sorted(set(names) - {path.stem for path in drawn}):
        print(f"{name}: its run holds nothing to draw")
    PAGE.write_text(page(), "utf-8")
    print(f"{len(drawn)} pictures, {sum(path.stat().st_size for path in PICTURES.glob('*.svg')) / 1e6:.1f} MB in all")
    return len(drawn) < len(names)


if __name__ == "__main__":
    raise SystemExit(main())
