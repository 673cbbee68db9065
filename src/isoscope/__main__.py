"""`python -m isoscope`. Python puts the current folder first on `sys.path` for it; nothing more may be imported from there."""

import os
import sys

if not sys.flags.safe_path and sys.path[0] == os.getcwd() != os.path.dirname(os.path.dirname(os.path.abspath(__file__))):
    del sys.path[0]

from isoscope.cli import start

start()
