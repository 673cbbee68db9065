"""What the page carries with it: its own files, the drawing library, and data that nothing can break out of."""

from __future__ import annotations

import base64
import contextlib
import gzip
import os
import re
import tempfile
from functools import lru_cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from isoscope.report.files import drawing, vega_lite_version

TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Characters that say in which direction the text after them is read."""


def asset(name: str) -> str:
    """A file that lies beside this one."""
    return resources.files("isoscope.report").joinpath(name).read_text(encoding="utf-8")


def rendered(name: str, **words: Any) -> str:
    """A template that lies beside this file, filled; whatever comes from models and files is escaped."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=in_reading_order)
    return environment.from_string(asset(name)).render(**words)


def in_reading_order(value: Any) -> Any:
    """A value as the page shows it: a mark that turns writing around would turn the sentence around in which a name stands.

    >>> in_reading_order("model\u202etxt.exe"), in_reading_order(3)
    ('model\ufffdtxt.exe', 3)
    """
    return TURNING.sub("\ufffd", value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def packed(text: str) -> str:
    """Text, compressed, in letters and digits, which cannot leave their script element whatever it says: the page unpacks it."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@lru_cache
def vega() -> str:
    """Vega, Vega-Lite and vega-embed as one packed script, as vl-convert carries them; kept between calls, as bundling takes seconds."""
    version = vega_lite_version()
    kept = cache_folder() / f"vega-{metadata.version('vl-convert-python')}-{version}.gz.b64"
    with contextlib.suppress(OSError):
        return kept.read_text("ascii")
    text = packed(drawing().javascript_bundle(vl_version=version))
    with contextlib.suppress(OSError):
        keep(text, kept)
    return text


def cache_folder() -> Path:
    """Where things are kept that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isoscope"


def keep(text: str, path: Path) -> None:
    """Write a file that others may read at the same time: they find all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="ascii") as file:
        file.write(text)
    Path(file.name).replace(path)
