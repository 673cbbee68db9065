"""A model on the Hugging Face hub: fetched by the hub's own client into its own cache, weights checked against what the hub declares."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isoscope.core.bounded import read_text
from isoscope.core.errors import IsoscopeError
from isoscope.models.formats.sentence_transformers import transformer_path
from isoscope.models.formats.weights import weight_files

SMALL = ("*.json", "*.txt", "*.model", "*.tiktoken", "*.jinja", "*.py")
"""What lies beside the weights and determines what the model computes: configuration, tokenizer, code."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class HubName:
    """`org/name[@revision][::file]`.

    >>> HubName.parse("org/name@v1::small.gguf")
    HubName(repository='org/name', revision='v1', file='small.gguf')
    """

    repository: str
    revision: str | None
    file: str | None

    @classmethod
    def parse(cls, text: str) -> HubName:
        """Take a name apart; whether the hub could have it is for the hub's client to say."""
        rest, _, file = text.partition("::")
        repository, _, revision = rest.partition("@")
        return cls(repository, revision or None, file or None)

    def __str__(self) -> str:
        return self.repository + (f"@{self.revision}" if self.revision else "") + (f"::{self.file}" if self.file else "")


def download(name: HubName, *, untrained: bool) -> Path:
    """The folder of a model in the hub's cache, called by its commit; what is missing there is fetched.

    Only files at the root are taken, and those of the Transformer's folder where the model is a chain of sentence-transformers
    modules. `untrained` takes no weights where config.json says what the model is.
    """
    with explained(name):
        folder = _fetch(name, name.revision, list(SMALL), "*/*")
        inside = transformer_path(folder)
        if inside:
            _fetch(name, folder.name, [f"{inside}/{pattern}" for pattern in SMALL], f"{inside}/*/*")
        if name.file or not untrained or not (folder / inside / "config.json").is_file():
            _fetch_weights(name, folder, inside)
    return folder


def client_settings() -> dict[str, Any]:
    """What the environment says now; the client itself looks once, when it is imported. Unset is left to the client."""
    home, cache = os.environ.get("HF_HOME"), os.environ.get("HF_HUB_CACHE")
    cache = cache or (os.path.join(home, "hub") if home else None)
    return {
        "endpoint": os.environ.get("HF_ENDPOINT") or None,
        "cache_dir": os.path.expandvars(os.path.expanduser(cache)) if cache else None,
        "local_files_only": offline(),
    }


def offline() -> bool:
    """Whether the environment forbids to ask the hub."""
    said = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return said.upper() in ("1", "ON", "YES", "TRUE")


def _fetch(name: HubName, revision: str | None, wanted: list[str], unwanted: str | None = None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

    class Bars(tqdm):  # the client shows one of its bars where nobody is looking
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options | {"disable": options.get("disable") or not sys.stderr.isatty()})  # type: ignore[no-untyped-call]

    selection: dict[str, Any] = {"allow_patterns": wanted, "ignore_patterns": unwanted}
    try:
        return Path(snapshot_download(name.repository, revision=revision, tqdm_class=Bars, **selection, **client_settings()))
    except LocalEntryNotFoundError as error:
        # Out of reach, and the cache holds a part: enough or not, that is seen when it is read.
        if partial := getattr(error, "snapshot_path", None):
            return Path(partial)
        raise


def _fetch_weights(name: HubName, folder: Path, inside: str) -> None:
    """Choose the weights among the files of a commit, fetch them, and check what was not checked before."""
    place = folder / inside
    try:
        declared = _declared(name, folder.name)
    except Exception:  # the client's errors have no class in common; what is in the cache will do, without a check
        with contextlib.suppress(IsoscopeError):
            if _weights(name, place, [path.name for path in place.iterdir()]):
                return
        raise
    parent = f"{inside}/" if inside else ""
    names = [path.removeprefix(parent) for path in declared if path.startswith(parent) and "/" not in path.removeprefix(parent)]
    chosen = [parent + file for file in _weights(name, place, names)]
    if chosen:
        _fetch(name, folder.name, chosen)
    elif found := sorted(file for file in names if file.endswith(".gguf")):
        raise IsoscopeError(f"{name} has its weights as GGUF only; name the file, as in {name}::{found[0]}.")
    for file in chosen:
        if sha256 := declared[file]:
            _check(name, folder, file, sha256)


def _weights(name: HubName, place: Path, names: list[str]) -> list[str]:
    if name.file is None:
        return weight_files(str(name), names, lambda index: read_text(place / index), lone=(".pt",))
    if name.file not in names:
        raise IsoscopeError(f"{name.repository} has no file {name.file}; it has {', '.join(sorted(names)[:8]) or 'none'}.")
    return [name.file]


def _declared(name: HubName, commit: str) -> dict[str, str | None]:
    """The files of a commit, each with the SHA-256 that the hub declares; it does so for large files, as weights are."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import OfflineModeIsEnabled

    if offline():
        raise OfflineModeIsEnabled
    info = HfApi(endpoint=client_settings()["endpoint"]).model_info(name.repository, revision=commit, files_metadata=True)
    return {file.rfilename: file.lfs.sha256 if file.lfs else None for file in info.siblings or []}


def _check(name: HubName, folder: Path, file: str, declared: str) -> None:
    """Compare a file with its declared SHA-256, once for each download; a file that differs is deleted."""
    path = folder / file
    seen = path.stat()
    mark, sign = folder.parent.parent / "checked" / declared, f"{seen.st_size} {seen.st_mtime_ns}"
    if mark.is_file() and mark.read_text("utf-8") == sign:
        return
    with path.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != declared:
        _delete(path)
        raise IsoscopeError(
            f"{file} of {name} arrived with the SHA-256 {found[:12]}…, but the hub declares {declared[:12]}…; "
            "it was deleted from the cache, so run the command again to download it anew."
        )
    with contextlib.suppress(OSError):  # a cache that is only read is checked each time
        mark.parent.mkdir(exist_ok=True)
        mark.write_text(sign, "utf-8")


def _delete(path: Path) -> None:
    """A file of the cache and the blob that it points to."""
    while path.is_symlink():
        target = path.parent / path.readlink()
        path.unlink()
        path = target
    path.unlink(missing_ok=True)


@contextlib.contextmanager
def explained(name: HubName) -> Iterator[None]:
    """Turn what the hub's client raises into one sentence about this name."""
    try:
        yield
    except IsoscopeError:
        raise
    except Exception as error:  # HTTP, operating system and validation errors have no class in common
        raise IsoscopeError(_sentence(name, error)) from error


def _sentence(name: HubName, error: Exception) -> str:
    """What the client raised, as one sentence; it often wraps the reason in an error of its own."""
    from huggingface_hub import errors

    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    for one in chain:
        if isinstance(one, errors.HFValidationError):
            return f"There is no folder {name}, and it is not a hub id (org/name or org/name@revision)."
        if isinstance(one, errors.OfflineModeIsEnabled):
            return _not_cached(name)
        if isinstance(one, errors.HfHubHTTPError):
            return _refusal(name, one)
        if isinstance(one, OSError) and one.errno in NO_ROOM:
            place = f"the hub's cache {cache_folder()} ({one.strerror})"
            return f"There is no room for {name} in {place}; make room, or set HF_HOME to another disk."
        if isinstance(one, OSError) and one.errno and not isinstance(one, ConnectionError | TimeoutError):
            return f"The hub's cache {cache_folder()} cannot be written ({one.strerror}); set HF_HOME to a folder of yours."
        if any(kind.__name__ == "TransportError" for kind in type(one).__mro__):  # of httpx, under whatever name the client has it
            return (
                f"{name} is not a folder here, and the hub cannot be reached to look for it ({_endpoint()}); check the path, the network "
                "or HF_ENDPOINT, or put the model's folder on this machine."
            )
    if offline():
        return _not_cached(name)
    return f"The hub does not give {name}: {(str(error).strip() or type(error).__name__).splitlines()[0].rstrip('.')}."


def _refusal(name: HubName, error: Any) -> str:
    from huggingface_hub import errors

    status = int(error.response.status_code)
    if isinstance(error, errors.GatedRepoError):
        return f"{name.repository} is gated: ask for access on its page on the hub, then set HF_TOKEN to a token of yours."
    if isinstance(error, errors.RevisionNotFoundError):
        return f"The hub has no revision {name.revision} of {name.repository}; name a branch, a tag or a commit."
    reasons = {
        401: "it does not exist, or it needs a token that may read it (HF_TOKEN)",
        403: "the token (HF_TOKEN) does not allow it",
        404: "there is no model of that name",
        429: "it was asked too often; try again later",
    }
    later = f"it answered {status}; try again later" if status >= 500 else f"it answered {status}"
    return f"The hub does not give {name}: {reasons.get(status, later)}."


def _not_cached(name: HubName) -> str:
    return (
        f"{name} is not whole in the hub's cache {cache_folder()}, and HF_HUB_OFFLINE forbids to fetch it; run once with HF_HUB_OFFLINE=0."
    )


def cache_folder() -> str:
    """Where the hub's client keeps what it downloads."""
    from huggingface_hub import constants

    return str(client_settings()["cache_dir"] or constants.HF_HUB_CACHE)


def _endpoint() -> str:
    from huggingface_hub import constants

    return str(client_settings()["endpoint"] or constants.ENDPOINT)
