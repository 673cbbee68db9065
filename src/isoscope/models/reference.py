"""What the name of a model means, and what identifies its weights; nothing is loaded here and torch is not needed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from isoscope.core.errors import IsoscopeError

UNTRAINED = "untrained:"
WEIGHTS = ("*.safetensors", "*.bin", "*.pt")
SMALL = ("*.json", "*.txt", "*.model", "*.jinja")


@dataclass(frozen=True)
class ModelReference:
    """A model by name: a folder, a .gguf file or a hub id with `@revision`; `untrained:` before it means at initialisation."""

    spec: str
    name: str
    folder: Path
    gguf: str | None
    untrained: bool
    revision: str
    weights: str
    """A hash of everything that determines what the model computes, its tokenizer included."""


def resolve(spec: str, *, seed: int = 0) -> ModelReference:
    """Find a model and hash its weights. A hub id is downloaded into the hub's own cache first."""
    untrained = spec.startswith(UNTRAINED)
    bare = spec.removeprefix(UNTRAINED)
    if not bare:
        raise IsoscopeError("A model is a folder, a .gguf file or a hub id such as org/name@revision; its name is empty.")
    path, gguf, commit = Path(bare).expanduser(), None, None
    if path.suffix == ".gguf":
        if not path.is_file():
            raise IsoscopeError(f"There is no file {bare}.")
        path, gguf = path.parent, path.name
        name = path.name if not gguf else Path(gguf).stem
    elif path.is_dir():
        name = path.resolve().name
    elif path.exists():
        raise IsoscopeError(f"{bare} is a file; a model is a folder with config.json and weights, a .gguf file or a hub id.")
    elif bare.startswith((".", "/", "~")) or bare.count("/") > 1 or path.suffix in (".safetensors", ".bin", ".pt"):
        raise IsoscopeError(f"There is no folder {bare}.")
    else:
        path, commit = _download(bare, untrained=untrained)
        name = bare.partition("@")[0]
    _check(path, gguf, untrained=untrained)
    digest = _digest(path, gguf, untrained=untrained, seed=seed)
    revision = f"seed{seed}" if untrained else commit or digest[:12]
    return ModelReference(spec, (UNTRAINED if untrained else "") + name, path, gguf, untrained, revision, digest)


def _check(folder: Path, gguf: str | None, *, untrained: bool) -> None:
    if gguf:
        return
    if not (folder / "config.json").is_file():
        raise IsoscopeError(f"{folder} has no config.json; a model's folder holds config.json, weights and a tokenizer.")
    if not untrained and not any(path for pattern in WEIGHTS for path in folder.glob(pattern)):
        raise IsoscopeError(f"{folder} holds no weights (.safetensors or .bin); to measure it at initialisation say {UNTRAINED}{folder}.")


def _digest(folder: Path, gguf: str | None, *, untrained: bool, seed: int) -> str:
    """Files are hashed, not names or dates, so that a copy elsewhere is the same model."""
    digest = hashlib.sha256(f"untrained {seed}".encode() if untrained else b"")
    if gguf:
        files = [folder / gguf]
    else:
        patterns = SMALL if untrained else SMALL + _preferred(folder)
        files = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    for path in files:
        # An untrained twin of a .gguf file is determined by its header; hashing all of it is simple and never wrong.
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _preferred(folder: Path) -> tuple[str, ...]:
    return ("*.safetensors",) if any(folder.glob("*.safetensors")) else ("*.bin", "*.pt")


def _download(spec: str, *, untrained: bool) -> tuple[Path, str]:
    """A hub id as a local folder and the commit it stands for."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    repository, _, revision = spec.partition("@")
    wanted = [*SMALL] if untrained else [*SMALL, "*.safetensors"]
    try:
        folder = Path(snapshot_download(repository, revision=revision or None, allow_patterns=wanted, ignore_patterns=["*/*"]))
        if not untrained and not any(folder.glob("*.safetensors")):
            folder = Path(
                snapshot_download(repository, revision=revision or None, allow_patterns=[*SMALL, "*.bin"], ignore_patterns=["*/*"])
            )
    except HFValidationError as error:
        raise IsoscopeError(f"There is no folder {spec}, and it is not a hub id (org/name or org/name@revision).") from error
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        reasons = {
            401: "it needs a token (HF_TOKEN) or does not exist",
            403: "access is not granted",
            404: "there is no such model or revision",
        }
        raise IsoscopeError(f"The hub does not give {spec}: {reasons.get(status or 0, f'it answered {status}')}.") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise IsoscopeError(
            f"{spec} is not a folder here, and the hub cannot be reached to look for it; check the path or the network, "
            "or put the model's folder on this machine."
        ) from error
    return folder, folder.name


def read_config(folder: Path) -> dict[str, object]:
    """config.json as it stands."""
    try:
        found = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise IsoscopeError(f"{folder / 'config.json'} cannot be read: {error}.") from error
    return found if isinstance(found, dict) else {}
