"""What the name of a model means, and what identifies its weights; nothing is loaded here and torch is not needed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from isoscope.core.bounded import read_json
from isoscope.core.errors import IsoscopeError
from isoscope.core.group import UNTRAINED
from isoscope.core.names import expand_home
from isoscope.models.beside import whole_file, whole_folder
from isoscope.models.formats.sentence_transformers import transformer_folder
from isoscope.models.formats.weights import weights_in
from isoscope.models.hub import SMALL, HubName, download

ALONE = (".gguf", ".pt")
"""Endings of files that are a model by themselves."""
FEEDING = "special tokens: as GGUF header and tokenizer_config.json say"
"""How models are fed. It is part of what identifies a model here, so that cells that were fed in another way have other keys."""
WEIGHTS_ONLY = (".safetensors", ".bin", ".ckpt")
"""Endings of files that are a model together with config.json."""


@dataclass(frozen=True)
class ModelReference:
    """A model by name: a folder, a .gguf or Whisper .pt file or a hub id with `@revision`; `untrained:` before it: at initialisation."""

    spec: str
    name: str
    folder: Path
    gguf: str | None
    untrained: bool
    revision: str
    weights: str
    """A hash of everything that determines what the model computes, its tokenizer included."""
    whisper: str | None = None
    """The name of OpenAI's Whisper checkpoint in the folder, which says itself what the model is."""
    step: int | None = None
    """Of a checkpoint of a suite: its step, and the seed of its training where there are several."""
    seed: int | None = None


def weight(reference: ModelReference) -> int:
    """The bytes of a model's files: of one file where it is one, else of the folder that its weights lie in."""
    alone = reference.gguf or reference.whisper
    files = [reference.folder / alone] if alone else reference.folder.iterdir()
    return sum(file.stat().st_size for file in files if file.is_file())


def resolve(spec: str, *, seed: int = 0) -> ModelReference:
    """Find a model and hash its weights. A hub id is downloaded into the hub's own cache first."""
    untrained = spec.startswith(UNTRAINED)
    bare = spec.removeprefix(UNTRAINED)
    if not bare:
        raise IsoscopeError("A model is a folder, a .gguf file or a hub id such as org/name@revision; its name is empty.")
    path, hub = expand_home(bare), HubName.parse(bare)
    file, commit = None, None
    if path.is_dir():
        name = path.resolve().name
        folder = transformer_folder(whole_folder(path))
    elif path.is_file() and path.suffix in (*WEIGHTS_ONLY, ".pt") and (beside := whole_file(path)):
        folder, name = beside, path.stem
    elif path.suffix in ALONE and hub.file is None:
        if not path.is_file():
            raise IsoscopeError(f"There is no file {bare}.")
        folder, file, name = path.parent, path.name, path.stem
    elif path.is_file() and path.suffix in WEIGHTS_ONLY:
        raise IsoscopeError(f"{bare} is a file of weights; name the folder that holds it and its config.json: {path.parent}.")
    elif hub.file and not hub.file.endswith(ALONE):
        raise IsoscopeError(f"{bare} names a file; of a model on the hub only a .gguf file or a Whisper .pt can be named.")
    elif path.exists():
        raise IsoscopeError(f"{bare} is a file; a model is a folder with config.json and weights, a .gguf file or a hub id.")
    elif bare.startswith((".", "/", "~")) or hub.repository.count("/") > 1 or path.suffix in WEIGHTS_ONLY:
        raise IsoscopeError(f"There is no folder {bare}.")
    else:
        folder = download(hub, untrained=untrained)
        file, commit = hub.file, folder.name
        name = f"{hub.repository}::{file}" if file else hub.repository
        folder = transformer_folder(folder)
    file = file or _whisper_in(folder)
    if not file:
        _check(folder, str(hub) if commit else str(folder), untrained=untrained)
    digest = _digest(folder, file, untrained=untrained, seed=seed)
    revision = f"seed{seed}" if untrained else commit or digest[:12]
    gguf = file if file and file.endswith(".gguf") else None
    whole = (UNTRAINED if untrained else "") + name
    return ModelReference(spec, whole, folder, gguf, untrained, revision, digest, None if gguf else file)


def _whisper_in(folder: Path) -> str | None:
    """A .pt that lies in a folder without config.json."""
    if (folder / "config.json").is_file():
        return None
    found = weights_in(folder)
    return found[0].name if len(found) == 1 and found[0].suffix == ".pt" else None


def _check(folder: Path, called: str, *, untrained: bool) -> None:
    if not (folder / "config.json").is_file():
        raise IsoscopeError(f"{called} has no config.json; a model's folder holds config.json, weights and a tokenizer.")
    if not untrained and not weights_in(folder):
        raise IsoscopeError(f"{called} holds no weights (.safetensors or .bin); to measure it at initialisation say {UNTRAINED}{called}.")


def _digest(folder: Path, file: str | None, *, untrained: bool, seed: int) -> str:
    """A hash of the names and contents of a model's files. Paths and dates do not count, so a copy elsewhere is the same model."""
    if file:
        # An untrained twin of such a file is determined by its header; hashing all of it is simple and never wrong.
        files = {folder / file}
        if file.endswith(".pt"):
            files.update(folder.glob("preprocessor_config.json"))  # how clips become spectrograms, where it is said
    else:
        small = {path for pattern in SMALL for path in folder.glob(pattern) if path.is_file()}
        files = small | set(() if untrained else weights_in(folder))
    # Each file has a hash of its own: run together, the end of one could be taken for the beginning of the next.
    parts = [FEEDING, f"untrained {seed}" if untrained else "trained"]
    for path in sorted(files):
        with path.open("rb") as opened:
            parts.append(f"{hashlib.file_digest(opened, 'sha256').hexdigest()} {path.name!r}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def read_config(folder: Path) -> dict[str, object]:
    """config.json as it stands."""
    try:
        found = read_json(folder / "config.json")
    except (OSError, ValueError) as error:
        raise IsoscopeError(f"{folder / 'config.json'} cannot be read: {error}.") from error
    return found if isinstance(found, dict) else {}
