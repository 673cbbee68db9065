"""The manifest of a cell: its identity, what it was measured on, the hash of each file, and a hash of itself, the seal."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Any

from isoscope import __version__
from isoscope.core.temporary import WRITER

MANIFEST, ROWS, SERIES, STATISTICS = "manifest.json", "rows.parquet", "series.parquet", "statistics.safetensors"
FORMAT = 2
FIELDS: dict[str, type] = {"key": str, "identity": dict, "columns": dict, "spec": dict, "keep": str, "files": dict}
"""The fields of every manifest, and their types."""
KEEP_LEVELS = ("rows", "sums", "all")
"""How much a cell may keep, from least to most."""
FILES = (ROWS, SERIES, STATISTICS)
"""The files that a cell may hold in addition to its manifest."""
AT = "at"
"""In the entry of a file: its name in the folder, if that is not the plain one. Files of a replaced cell have new names."""
SEAL = '"seal": "'
"""The text before the seal. The seal is the hash of the manifest with an empty seal."""
COLUMNS: dict[str, type | tuple[type, ...]] = {
    "model": str,
    "revision": (str, type(None)),
    "step": (int, type(None)),
    "seed": (int, type(None)),
    "modality": (str, type(None)),
    "family": (str, type(None)),
}
"""The fields that describe the model, and their types."""
SPEC: dict[str, type | tuple[type, ...]] = {
    "data": str,
    "fingerprint": str,
    "counted": str,
    "special_tokens": str,
    "weights_that_do_not_fit": str,
    "documents": int,
    "tokens": int,
    "seq_len": (int, type(None)),
    "sample": int,
    "seed": (int, type(None)),
    "dtype": (str, type(None)),
    "unit": str,
}
"""The fields that describe what was measured, and their types; all of them are optional."""
MOST = 1 << 63
"""Counts, and numbers of seconds and bytes, stay below this."""


def key_of(identity: dict[str, Any]) -> str:
    """The key of a cell: a hash of its identity.

    >>> key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]


def manifest_of(identity: dict[str, Any], columns: dict[str, Any], spec: dict[str, Any], keep: str, **more: Any) -> dict[str, Any]:
    """The manifest of a new cell, without its files: identity, columns about the model, what it was measured on, what it kept; and when."""
    made = {"isoscope": __version__, "created": datetime.now(UTC).isoformat(timespec="microseconds")}
    return made | {"identity": identity, "columns": columns, "spec": spec, "keep": keep} | more


def mistake_in(manifest: dict[str, Any], folder: str) -> str:
    """What is wrong with the manifest of a cell in a folder of this name; empty if nothing is."""
    # A manifest may come from a stranger, and its key and file names become paths that are read, written and deleted.
    if absent := [field for field, kind in FIELDS.items() if not isinstance(manifest.get(field), kind)]:
        return f"it lacks {', '.join(absent)}"
    if manifest["key"] != folder:
        return f"it is of the cell {manifest['key'][:40]!r}"
    if manifest["keep"] not in KEEP_LEVELS:
        return f"it kept {manifest['keep'][:40]!r}, and not {', '.join(KEEP_LEVELS)}"
    for file in manifest["files"]:
        if file not in FILES or not is_name_of(file_name(manifest, file), file):
            return f"it names the file {file_name(manifest, file) if file in FILES else file!r:.80}"
    for part, kinds in (("columns", COLUMNS), ("spec", SPEC)):
        for name, kind in kinds.items():
            value = manifest[part].get(name)
            if isinstance(value, int) and not -MOST <= value < MOST:
                return f"its {name} is {value!r:.40}"
            if not isinstance(value, kind) and (name in manifest[part] or name == "model"):
                return f"its {name} is {value!r:.40}"
    tried = manifest.get("tried", [])
    if not (isinstance(tried, list) and all(isinstance(name, str) for name in tried)):
        return f"what it tried is {tried!r:.40}"
    for cost in ("seconds", "memory"):
        value = manifest.get(cost, 0)
        if type(value) not in (int, float) or not 0 <= value < MOST:
            return f"its {cost} are {manifest[cost]!r:.40}"
    shard = manifest["identity"].get("shard", [0, 1])
    if not (isinstance(shard, list) and len(shard) == 2 and all(type(one) is int for one in shard) and 0 <= shard[0] < shard[1] < 1 << 20):
        return f"its shard is {shard!r:.40}"
    return ""


def file_name(manifest: dict[str, Any], file: str) -> str:
    """The name that a file of a cell has in the cell's folder."""
    entry = manifest["files"][file]
    return str(entry.get(AT, file)) if isinstance(entry, dict) else file


def is_name_of(name: str, file: str) -> bool:
    """Whether a file of a cell may have this name: the plain one, or one with the mark of a writer.

    >>> is_name_of("rows.parquet", "rows.parquet"), is_name_of("rows.0a1b2c3d-12-00ff00ff.parquet", "rows.parquet")
    (True, True)
    >>> is_name_of("series.parquet", "rows.parquet"), is_name_of("rows.../../x.parquet", "rows.parquet")
    (False, False)
    """
    stem, _, suffix = file.partition(".")
    return name == file or re.fullmatch(rf"{stem}\.{WRITER}\.{suffix}", name, re.ASCII) is not None


def is_file_of_a_cell(name: str) -> bool:
    """Whether isoscope writes rows, series or statistics under this name."""
    return any(is_name_of(name, file) for file in FILES)


def seal_manifest(manifest: dict[str, Any]) -> str:
    """The text of a manifest, with its seal as the last field."""
    fields = {name: value for name, value in manifest.items() if name != "seal"}
    text = json.dumps(fields | {"seal": ""}, indent=1, ensure_ascii=False)
    at = text.rindex(SEAL) + len(SEAL)
    return f"{text[:at]}{hashlib.sha256(text.encode()).hexdigest()}{text[at:]}"


def seal_holds(text: str) -> bool | None:
    """Whether a manifest is as it was written; None if it has no seal.

    >>> seal_holds(seal_manifest({"n": 12})), seal_holds(seal_manifest({"n": 12}).replace("12", "13")), seal_holds('{"n": 12}')
    (True, False, None)
    """
    at = text.rfind(SEAL) + len(SEAL)
    if at < len(SEAL):
        return None
    seal, unsealed = text[at : at + 64], text[:at] + text[at + 64 :]
    return hashlib.sha256(unsealed.encode()).hexdigest() == seal
