"""Models on the Hugging Face hub: the hub's own client fetches them into its own cache, and weights are checked against declared hashes."""

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

from isoscope.core.errors import IsoscopeError
from isoscope.trust.model_files import MODULES, transformer_path, weight_files
from isoscope.trust.safe_io import read_text

SMALL = ("*.json", "*.txt", "*.model", "*.tiktoken", "*.jinja", "*.py")
"""Files next to the weights that determine what the model computes: configuration, tokenizer, code."""
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
        """Split a name into its parts. The hub's client decides whether the hub can have it."""
        rest, _, file = text.partition("::")
        repository, _, revision = rest.partition("@")
        return cls(repository, revision or None, file or None)

    def __str__(self) -> str:
        return self.repository + (f"@{self.revision}" if self.revision else "") + (f"::{self.file}" if self.file else "")


def download_model(name: HubName, *, untrained: bool) -> Path:
    """Fetch a model and return its folder in the hub's cache, whose name is the commit. Files that are there already are not fetched again.

    Only files at the root are taken, and if the model is a chain of sentence-transformers modules, those of the Transformer's folder and
    the settings of its pooling.
    `untrained` fetches no weights if there is a config.json.
    """
    with hub_errors_as_user_errors(name, OSError):  # a cache that cannot be read or written
        # The small files come first: modules.json says which folder holds the weights, config.json whether any are needed.
        folder = _fetch_files(name, name.revision, list(SMALL), "*/*")
        inside = transformer_path(folder)
        if inside:
            _fetch_files(name, folder.name, [f"{inside}/{pattern}" for pattern in SMALL], f"{inside}/*/*")
        if (folder / MODULES).is_file():
            _fetch_files(name, folder.name, ["*_Pooling/config.json"])
        if name.file or not untrained or not (folder / inside / "config.json").is_file():
            _fetch_weights(name, folder, inside)
    return folder


def client_settings() -> dict[str, Any]:
    """The client's settings from the environment as it is now; the client itself reads it once, on import. None means its default."""
    home, cache = os.environ.get("HF_HOME"), os.environ.get("HF_HUB_CACHE")
    cache = cache or (os.path.join(home, "hub") if home else None)
    return {
        "endpoint": os.environ.get("HF_ENDPOINT") or None,
        "cache_dir": os.path.expandvars(os.path.expanduser(cache)) if cache else None,
        "local_files_only": is_offline(),
    }


def hub_api() -> Any:
    """The client for questions to the hub."""
    from huggingface_hub import HfApi

    return HfApi(endpoint=client_settings()["endpoint"])


def is_offline() -> bool:
    """Whether the environment forbids asking the hub."""
    setting = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return setting.upper() in ("1", "ON", "YES", "TRUE")


def _fetch_files(name: HubName, revision: str | None, patterns: list[str], ignored: str | None = None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

    class Bars(tqdm):  # the client would show one of its bars even if standard error is not a terminal
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options | {"disable": options.get("disable") or not sys.stderr.isatty()})  # type: ignore[no-untyped-call]

    selection: dict[str, Any] = {"allow_patterns": patterns, "ignore_patterns": ignored}
    with hub_errors_as_user_errors(name):
        try:
            return Path(snapshot_download(name.repository, revision=revision, tqdm_class=Bars, **selection, **client_settings()))
        except LocalEntryNotFoundError as error:
            # The hub is out of reach and the cache holds a part. Whether that is enough shows when the files are read.
            if partial := getattr(error, "snapshot_path", None):
                return Path(partial)
            raise


def _fetch_weights(name: HubName, folder: Path, inside: str) -> None:
    """Choose the weights among the files of a commit, fetch them, and check those that were not checked before."""
    place = folder / inside
    try:
        declared = _declared_hashes(name, folder.name)
    except IsoscopeError:  # the hub cannot be asked: weights that are in the cache already are used without a check
        with contextlib.suppress(IsoscopeError):
            if _choose_weights(name, place, [path.name for path in place.iterdir()]):
                return
        raise
    parent = f"{inside}/" if inside else ""
    names = [path.removeprefix(parent) for path in declared if path.startswith(parent) and "/" not in path.removeprefix(parent)]
    chosen = [parent + file for file in _choose_weights(name, place, names)]
    if chosen:
        _fetch_files(name, folder.name, chosen)
    elif ggufs := sorted(file for file in names if file.endswith(".gguf")):
        raise IsoscopeError(f"{name} has its weights as GGUF only; name the file, as in {name}::{ggufs[0]}.")
    for file in chosen:
        if sha256 := declared[file]:
            _check_hash(name, folder, file, sha256)


def _choose_weights(name: HubName, place: Path, names: list[str]) -> list[str]:
    if name.file is None:
        return weight_files(str(name), names, lambda index: read_text(place / index), lone=(".pt",))
    if name.file not in names:
        raise IsoscopeError(f"{name.repository} has no file {name.file}; it has {', '.join(sorted(names)[:8]) or 'none'}.")
    return [name.file]


def _declared_hashes(name: HubName, commit: str) -> dict[str, str | None]:
    """The files of a commit with the SHA-256 that the hub declares. It declares one for large files, such as weights."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    with hub_errors_as_user_errors(name):
        if is_offline():
            raise OfflineModeIsEnabled
        info = hub_api().model_info(name.repository, revision=commit, files_metadata=True)
    return {file.rfilename: file.lfs.sha256 if file.lfs else None for file in info.siblings or []}


def _check_hash(name: HubName, folder: Path, file: str, declared: str) -> None:
    """Compare a file with its declared SHA-256, and delete it if they differ.

    A file in `checked/`, next to the cache's own folders, remembers size and time of a file that passed: hashing tens of gigabytes again
    for every run would take minutes.
    """
    path = folder / file
    status = path.stat()
    mark, stamp = folder.parent.parent / "checked" / declared, f"{status.st_size} {status.st_mtime_ns}"
    if mark.is_file() and mark.read_text("utf-8") == stamp:
        return
    with path.open("rb") as opened:
        actual = hashlib.file_digest(opened, "sha256").hexdigest()
    if actual != declared:
        _delete_blob(path)
        raise IsoscopeError(
            f"{file} of {name} arrived with the SHA-256 {actual[:12]}…, but the hub declares {declared[:12]}…; "
            "it was deleted from the cache, so run the command again to download it anew."
        )
    with contextlib.suppress(OSError):  # a read-only cache is checked each time
        mark.parent.mkdir(exist_ok=True)
        mark.write_text(stamp, "utf-8")


def _delete_blob(path: Path) -> None:
    """Delete a file of the cache and the blob that it points to."""
    while path.is_symlink():
        target = path.parent / path.readlink()
        path.unlink()
        path = target
    path.unlink(missing_ok=True)


@contextlib.contextmanager
def hub_errors_as_user_errors(name: HubName, kind: type[Exception] = Exception) -> Iterator[None]:
    """Turn an exception of the hub's client into one sentence about this name.

    HTTP, operating system and validation errors have no class in common, so only calls into the client belong inside. Code of ours may be
    inside if `kind` is narrower.
    """
    try:
        yield
    except IsoscopeError:
        raise
    except kind as error:
        raise IsoscopeError(_describe_error(name, error)) from error


def error_chain(error: BaseException) -> list[BaseException]:
    """An error, the error it was raised from, and so on."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    return chain


def is_network_failure(error: BaseException) -> bool:
    """Whether an error of httpx says that the hub cannot be reached. The client may carry httpx under another name, so only names count."""
    return any(kind.__name__ == "TransportError" for kind in type(error).__mro__)


def _describe_error(name: HubName, error: Exception) -> str:
    """An exception of the client as one sentence. The client often wraps the reason in an error of its own."""
    from huggingface_hub import errors

    # The outermost error comes first: the client's own classes say more than the HTTP and system errors they wrap.
    for cause in error_chain(error):
        if isinstance(cause, errors.HFValidationError):
            return f"There is no folder {name}, and it is not a hub id (org/name or org/name@revision)."
        if isinstance(cause, errors.OfflineModeIsEnabled):
            return _describe_missing(name)
        if isinstance(cause, errors.HfHubHTTPError):
            return _describe_refusal(name, cause)
        if isinstance(cause, OSError) and cause.errno in NO_ROOM:
            place = f"the hub's cache {cache_folder()} ({cause.strerror})"
            return f"There is no room for {name} in {place}; make room, or set HF_HOME to another disk."
        if isinstance(cause, OSError) and cause.errno and not isinstance(cause, ConnectionError | TimeoutError):
            return f"The hub's cache {cache_folder()} cannot be written ({cause.strerror}); set HF_HOME to a folder of yours."
        if is_network_failure(cause):
            return (
                f"{name} is not a folder here, and the hub cannot be reached to look for it ({_endpoint()}); check the path, the network "
                "or HF_ENDPOINT, or put the model's folder on this machine."
            )
    if is_offline():  # the client may report only that a file is not in its cache
        return _describe_missing(name)
    return f"The hub does not give {name}: {(str(error).strip() or type(error).__name__).splitlines()[0].rstrip('.')}."


def _describe_refusal(name: HubName, error: Any) -> str:
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


def _describe_missing(name: HubName) -> str:
    place = f"the hub's cache {cache_folder()}"
    return f"{name} is not complete in {place}, and HF_HUB_OFFLINE forbids fetching it; run once with HF_HUB_OFFLINE=0."


def cache_folder() -> str:
    """The folder in which the hub's client keeps its downloads."""
    from huggingface_hub import constants

    return str(client_settings()["cache_dir"] or constants.HF_HUB_CACHE)


def _endpoint() -> str:
    from huggingface_hub import constants

    return str(client_settings()["endpoint"] or constants.ENDPOINT)
