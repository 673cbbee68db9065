"""Draw one metric over the layers of a model, from a run to an SVG for a paper.

    python examples/draw_a_figure.py [RUN] [FILE.svg]

Without a run it measures a small random model and writes figure.svg.
"""

import sys
import tempfile
from pathlib import Path

from tiny_model import tiny_model

import isoscope
from isoscope.figures import figures
from isoscope.report.files import PRINT, render_chart


def main() -> None:
    out = Path(sys.argv[2] if len(sys.argv) > 2 else "figure.svg")
    with tempfile.TemporaryDirectory() as work:
        if len(sys.argv) > 1:
            run = isoscope.open(sys.argv[1])
        else:
            run = isoscope.measure(str(tiny_model(Path(work) / "tiny")), out=Path(work) / "run", max_tokens=8_000, quiet=True)
        table = run.table("between_cosine")
        chart = figures["layer_profile"].draw(table, run.series()).properties(width=640, height=230)
        out.write_bytes(render_chart(chart.to_dict() | {"config": PRINT}, out.suffix.removeprefix(".")))
        print(f"{out}: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
