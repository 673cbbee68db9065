"""Measure the Transformer of a sentence-transformers folder; its modules.json says where in the folder it lies.

python examples/measure_sentence_transformer.py FOLDER
"""

import sys

import isoscope

table = isoscope.measure(sys.argv[1], max_tokens=4_000, quiet=True).table("between_cosine", policy="no-special")
print(table[table["kind"] == "hidden"][["model", "layer", "value", "low", "high"]].to_string(index=False))
