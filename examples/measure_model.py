"""Measure a model beside its untrained twin, and print where they differ.

    python examples/measure_model.py [MODEL]

Without a model it makes a small one with random weights, which is its own kind of untrained twin: the differences are between two draws.
"""

import sys
import tempfile
from pathlib import Path

from tiny_model import tiny_model

import isoscope


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        model = sys.argv[1] if len(sys.argv) > 1 else str(tiny_model(Path(work) / "tiny"))
        run = isoscope.measure([model, f"untrained:{model}"], out=Path(work) / "run", max_tokens=8_000, seed=1, quiet=True)
        table = run.table("between_cosine", policy="no-special")
        hidden = table[table["kind"] == "hidden"]
        print(hidden.pivot(index="layer", columns="model", values="value").round(4).to_string())
        step = hidden.groupby("model")["value"].agg(lambda value: value.idxmax())
        for model_name, row in hidden.loc[step].set_index("model").iterrows():
            print(f"{model_name} peaks in layer {row['layer']}: {row['value']:.4f} (95 % {row['low']:.4f} to {row['high']:.4f})")


if __name__ == "__main__":
    main()
