"""Checkpoints that keep configuration and tokenizer once for all of them: each as the folder that it would be by itself."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from isoscope.models.suites.folder import is_between
from isoscope.models.suites.names import step_in

CONFIG = "config.json"
PREPARES = ("tokenizer*", "vocab*", "merges.txt", "*.model", "*.tiktoken", "*preprocessor_config.json", "processor_config.json")
"""What makes inputs for a model."""
MORE = ("generation_config.json", "special_tokens_map.json", "added_tokens.json", "*.jinja", "configuration_*.py", "modeling_*.py")


def whole_folder(folder: Path) -> Path:
    """A folder of a step together with the configuration and tokenizer that lie above it, where it has none; any other is itself."""
    if step_in(folder.name) is None:
        return folder
    lacks_config, lacks_input = not (folder / CONFIG).is_file(), not _found(folder, PREPARES)
    above = _above(folder.parent, (CONFIG,) if lacks_config else PREPARES)
    if above is None or not (lacks_config or lacks_input):
        return folder
    taken = [*((CONFIG,) if lacks_config else ()), *((*PREPARES, *MORE) if lacks_input else ())]
    own = {path.name: path for path in folder.iterdir() if path.is_file()}
    return _linked({path.name: path for path in _found(above, taken)} | own)


def whole_file(path: Path) -> Path | None:
    """A file of weights together with the config.json and tokenizer beside or above it; None where there is no config.json.

    The weights are called the same whatever the file's name, so that equal ones are the same model.
    """
    above = _above(path.parent, (CONFIG,))
    if above is None:
        return None
    return _linked({found.name: found for found in _found(above, (CONFIG, *PREPARES, *MORE))} | {f"weights{path.suffix}": path})


def _above(folder: Path, patterns: tuple[str, ...]) -> Path | None:
    """The nearest folder that has such a file, going up no further than the training's own."""
    folder = folder.resolve()
    while not _found(folder, patterns):
        if not is_between(folder):
            return None
        folder = folder.parent
    return folder


def _found(folder: Path, patterns: tuple[str, ...] | list[str]) -> list[Path]:
    return [path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file() and step_in(path.stem) is None]


def _linked(files: dict[str, Path]) -> Path:
    """A folder of links, for as long as this process lives."""
    folder = Path(tempfile.mkdtemp(prefix="isoscope-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, path in files.items():
        (folder / name).symlink_to(path.resolve())
    return folder
