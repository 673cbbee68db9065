"""Peak memory of a run against what was announced, and against a run of four times as many tokens.

Usage: python benchmarks/memory.py MODEL [--tokens 20000]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

CHILD = """
import json, sys, tempfile
import isoscope
from isoscope.engine import announce
from isoscope.engine.single_pass import Pass
said, whole = [], Pass.memory
Pass.memory = lambda self: said.append(whole(self)) or said[-1]
with tempfile.TemporaryDirectory() as folder:
    isoscope.measure(sys.argv[1], "embedded", folder, max_tokens=int(sys.argv[2]))
print(json.dumps({"announced": said[0], "peak": announce.peak_memory()}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=20_000)
    given = parser.parse_args()
    for tokens in (given.tokens, 4 * given.tokens):
        command = [sys.executable, "-c", CHILD, given.model, str(tokens)]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
        off = found["peak"] / found["announced"] - 1
        print(f"{tokens:>8,} tokens: announced {found['announced'] / 1e6:.0f} MB, peak {found['peak'] / 1e6:.0f} MB ({off:+.1%})")


if __name__ == "__main__":
    main()
