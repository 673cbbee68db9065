"""The checkpoints of a pattern on the hub: what it lists, what it lacks, and what of it lies in the cache."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.models.hub import HubName, cache_folder, client_settings, explained, offline
from isoscope.models.suites.names import Member, Pattern


def listed(pattern: Pattern, seeds: list[int] | None = None) -> list[Member]:
    """The checkpoints that the hub has of a pattern: branches and tags of a repository (one a seed, if so), or repositories of an owner."""
    hub = HubName.parse(pattern.text)
    if "{seed}" in hub.repository and hub.revision and seeds:
        each = ((seed, Pattern(pattern.text.replace("{seed}", str(seed)))) for seed in seeds)
        return [replace(member, seed=seed) for seed, own in each for member in listed(own)]
    if "{seed}" in hub.repository and hub.revision:
        raise IsoscopeError(f"{pattern.text} is many repositories with many revisions, which the hub does not list; give --seeds.")
    if offline():
        raise IsoscopeError(f"HF_HUB_OFFLINE forbids to ask which checkpoints {pattern.text} has; give --steps (and --seeds).")
    with explained(hub):
        names = _revisions(hub.repository) if hub.revision else _repositories(pattern)
        found = [member for name in names if (member := pattern.match(name))]
    if not found:
        raise IsoscopeError(f"The hub lists nothing that is called {pattern.text}; check the pattern, or give --steps (and --seeds).")
    return found


def _api() -> Any:
    from huggingface_hub import HfApi

    return HfApi(endpoint=client_settings()["endpoint"])


def _revisions(repository: str) -> list[str]:
    found = _api().list_repo_refs(repository)
    return list(dict.fromkeys(f"{repository}@{ref.name}" for ref in [*found.branches, *found.tags]))


def _repositories(pattern: Pattern) -> Iterator[str]:
    owner, slash, rest = pattern.start.partition("/")
    search = {"author": owner, "search": rest} if slash else {"search": owner}
    return (str(model.id) for model in _api().list_models(**search))


def is_missing(error: BaseException) -> bool:
    """Whether the hub said that it does not have a model or revision, and not that it cannot or will not give it now."""
    from huggingface_hub import errors

    return any(
        isinstance(one, errors.RepositoryNotFoundError | errors.RevisionNotFoundError) and not isinstance(one, errors.GatedRepoError)
        for one in causes(error)
    )


def is_out_of_reach(error: BaseException) -> bool:
    """Whether the network, the hub or the disk failed: then the next checkpoint would fare no better."""
    from huggingface_hub import errors

    out = (errors.HfHubHTTPError, errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError)
    return any(
        isinstance(one, out)
        or any(kind.__name__ == "TransportError" for kind in type(one).__mro__)
        # of the system, and not one of those without a number that transformers raises for whatever it cannot load
        or (isinstance(one, OSError) and one.errno not in (None, errno.ENOENT))
        for one in causes(error)
    )


def causes(error: BaseException) -> list[BaseException]:
    """An error, what it was raised from, and so on."""
    found = [error]
    while (cause := found[-1].__cause__ or found[-1].__context__) is not None and cause not in found:
        found.append(cause)
    return found


def commit_of(name: HubName) -> str | None:
    """The commit that a revision stands for now; None where the hub does not say."""
    try:
        if offline():
            return None
        return str(_api().model_info(name.repository, revision=name.revision).sha)
    except Exception:  # the client's errors have no class in common; what was measured before is believed
        return None


def in_cache(name: HubName) -> bool:
    """Whether the hub's cache holds something of this revision."""
    folder, revision = _repository(name), name.revision or "main"
    return (folder / "refs" / revision).exists() or (folder / "snapshots" / revision).exists()


def forget(name: HubName, commit: str) -> None:
    """Take a commit out of the hub's cache; files that another commit has too stay."""
    folder = _repository(name)
    snapshot = folder / "snapshots" / commit
    if not snapshot.is_dir():
        return
    own = _blobs(snapshot)
    shutil.rmtree(snapshot)
    for blob in own - _blobs(folder / "snapshots"):
        blob.unlink(missing_ok=True)
    for ref in list((folder / "refs").rglob("*")):
        if ref.is_file() and ref.read_text("utf-8").strip() == commit:
            ref.unlink()
    if not any((folder / "snapshots").iterdir()):
        shutil.rmtree(folder)


def _repository(name: HubName) -> Path:
    return Path(cache_folder()) / f"models--{name.repository.replace('/', '--')}"


def _blobs(folder: Path) -> set[Path]:
    return {path.resolve() for path in folder.rglob("*") if path.is_symlink()}
