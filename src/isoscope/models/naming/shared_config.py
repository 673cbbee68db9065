"""Checkpoints of one training that share a configuration and a tokenizer: each is completed to the folder it would be by itself."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from isoscope.models.naming.suites.checkpoint_names import step_in
from isoscope.models.naming.suites.folder_suite import is_training_subfolder

CONFIG = "config.json"
INPUT_FILES = ("tokenizer*", "vocab*", "merges.txt", "*.model", "*.tiktoken", "*preprocessor_config.json", "processor_config.json")
"""Files that say how inputs are made."""
OTHER_FILES = ("generation_config.json", "special_tokens_map.json", "added_tokens.json", "*.jinja", "configuration_*.py", "modeling_*.py")


def with_shared_files(folder: Path) -> Path:
    """Complete the folder of a training step with the configuration and tokenizer above it; any other folder is returned as given."""
    if step_in(folder.name) is None:
        return folder
    lacks_config, lacks_input = not (folder / CONFIG).is_file(), not _matching_files(folder, INPUT_FILES)
    above = _nearest_folder_with((CONFIG,) if lacks_config else INPUT_FILES, folder.parent)
    if above is None or not (lacks_config or lacks_input):
        return folder
    patterns = [*((CONFIG,) if lacks_config else ()), *((*INPUT_FILES, *OTHER_FILES) if lacks_input else ())]
    own = {path.name: path for path in folder.iterdir() if path.is_file()}
    return _make_link_folder({path.name: path for path in _matching_files(above, patterns)} | own)


def folder_for_weights_file(path: Path) -> Path | None:
    """Make a folder of a weights file and the config.json and tokenizer next to or above it; None if there is no config.json.

    The link to the weights has the same name for every file, because file names are part of what identifies a model: equal weights under
    two names are one model.
    """
    above = _nearest_folder_with((CONFIG,), path.parent)
    if above is None:
        return None
    shared = {file.name: file for file in _matching_files(above, (CONFIG, *INPUT_FILES, *OTHER_FILES))}
    return _make_link_folder(shared | {f"weights{path.suffix}": path})


def _nearest_folder_with(patterns: tuple[str, ...], folder: Path) -> Path | None:
    """The nearest folder that has such a file, from `folder` up to the training's own folder and no further."""
    folder = folder.resolve()
    while not _matching_files(folder, patterns):
        if not is_training_subfolder(folder):
            return None
        folder = folder.parent
    return folder


def _matching_files(folder: Path, patterns: tuple[str, ...] | list[str]) -> list[Path]:
    return [path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file() and step_in(path.stem) is None]


def _make_link_folder(files: dict[str, Path]) -> Path:
    """Make a folder of links that is deleted when this process ends."""
    # Links, because from_pretrained reads one folder; copies of large weights would take minutes and disk space.
    folder = Path(tempfile.mkdtemp(prefix="isoscope-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, path in files.items():
        (folder / name).symlink_to(path.resolve())
    return folder
