"""The parts that the page embeds: its own files, the drawing library, and packed data that cannot break out of its element."""

from __future__ import annotations

import base64
import contextlib
import gzip
import re
import tempfile
from functools import lru_cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from isoscope.charts.print_chart import load_converter, vega_lite_version
from isoscope.core.cache import cache_folder
from isoscope.trust.safe_io import to_strict_json

DIRECTION_MARKS = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Characters that change the direction in which the text after them is read."""


def read_asset(name: str) -> str:
    """A file of this package."""
    return resources.files("isoscope.report").joinpath(name).read_text(encoding="utf-8")


def render_template(name: str, **words: Any) -> str:
    """Fill a template of this package. Text from models and files is escaped."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=drop_direction_marks)
    return environment.from_string(read_asset(name)).render(**words)


def drop_direction_marks(value: Any) -> Any:
    """A value without marks that would reverse the sentence around a name.

    >>> drop_direction_marks("model\u202etxt.exe"), drop_direction_marks(3)
    ('model\ufffdtxt.exe', 3)
    """
    return DIRECTION_MARKS.sub("\ufffd", value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def pack_json(value: Any) -> str:
    """A value as packed JSON."""
    return pack(to_strict_json(value, separators=(",", ":")))


def pack(text: str) -> str:
    """Text, compressed and in base64, so that nothing in it can end its script element; the page unpacks it."""
    # Without a time, the same text packs to the same bytes, and pages of the same run are equal.
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@lru_cache
def vega_script() -> str:
    """Vega, Vega-Lite and vega-embed from vl-convert as one packed script; cached on disk, because bundling takes seconds."""
    version = vega_lite_version()
    cached = cache_folder() / f"vega-{metadata.version('vl-convert-python')}-{version}.gz.b64"
    # A cache that cannot be read or written costs seconds and nothing else.
    with contextlib.suppress(OSError):
        return cached.read_text("ascii")
    text = pack(load_converter().javascript_bundle(vl_version=version))
    with contextlib.suppress(OSError):
        write_at_once(text, cached)
    return text


def write_at_once(text: str, path: Path) -> None:
    """Write a file that other processes may read meanwhile: they see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="ascii") as file:
        file.write(text)
    Path(file.name).replace(path)
