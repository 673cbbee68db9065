"""The checkpoints of a pattern on the hub: which ones it lists, which it lacks, and which lie in the cache."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from isoscope.core.errors import IsoscopeError
from isoscope.models.naming.checkpoint_names import Member, Pattern
from isoscope.models.naming.hub_models import (
    HubName,
    cache_folder,
    error_chain,
    hub_api,
    hub_errors_as_user_errors,
    is_network_failure,
    is_offline,
)


def list_checkpoints(pattern: Pattern, seeds: list[int] | None = None) -> list[Member]:
    """The checkpoints that the hub has for a pattern: branches and tags of a repository (or one per seed), or repositories of an owner."""
    hub = HubName.parse(pattern.text)
    if "{seed}" in hub.repository and hub.revision and seeds:
        patterns = ((seed, Pattern(pattern.text.replace("{seed}", str(seed)))) for seed in seeds)
        return [replace(member, seed=seed) for seed, one_seed in patterns for member in list_checkpoints(one_seed)]
    if "{seed}" in hub.repository and hub.revision:
        raise IsoscopeError(f"{pattern.text} is many repositories with many revisions, which the hub does not list; give --seeds.")
    if is_offline():
        raise IsoscopeError(f"HF_HUB_OFFLINE forbids asking which checkpoints {pattern.text} has; give --steps (and --seeds).")
    with hub_errors_as_user_errors(hub):
        names = list(_list_revisions(hub.repository) if hub.revision else _list_repositories(pattern))
    members = [member for name in names if (member := pattern.match(name))]
    if not members:
        raise IsoscopeError(f"The hub lists nothing that is called {pattern.text}; check the pattern, or give --steps (and --seeds).")
    return members


def _list_revisions(repository: str) -> list[str]:
    refs = hub_api().list_repo_refs(repository)
    return list(dict.fromkeys(f"{repository}@{ref.name}" for ref in [*refs.branches, *refs.tags]))


def _list_repositories(pattern: Pattern) -> Iterator[str]:
    owner, slash, rest = pattern.prefix.partition("/")
    search = {"author": owner, "search": rest} if slash else {"search": owner}
    return (str(model.id) for model in hub_api().list_models(**search))


def is_missing(error: BaseException) -> bool:
    """Whether the hub says that it does not have a model or revision, and not that it cannot or will not give it now."""
    from huggingface_hub import errors

    return any(
        isinstance(cause, errors.RepositoryNotFoundError | errors.RevisionNotFoundError) and not isinstance(cause, errors.GatedRepoError)
        for cause in error_chain(error)
    )


def is_out_of_reach(error: BaseException) -> bool:
    """Whether the network, the hub or the disk failed: then the next checkpoint would fail too."""
    from huggingface_hub import errors

    hub_errors = (errors.HfHubHTTPError, errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError)
    # transformers raises an OSError without a number for anything it cannot load; an error of the system has one.
    return any(
        isinstance(cause, hub_errors)
        or is_network_failure(cause)
        or (isinstance(cause, OSError) and cause.errno not in (None, errno.ENOENT))
        for cause in error_chain(error)
    )


def commit_of(name: HubName) -> str | None:
    """The commit that a revision stands for now; None if the hub does not say."""
    try:
        if is_offline():
            return None
        return str(hub_api().model_info(name.repository, revision=name.revision).sha)
    except Exception:  # the client's errors have no class in common; without an answer, earlier results are taken to be current
        return None


def is_cached(name: HubName) -> bool:
    """Whether the hub's cache holds something of this revision."""
    folder, revision = _cached_repository(name), name.revision or "main"
    return (folder / "refs" / revision).exists() or (folder / "snapshots" / revision).exists()


def delete_from_cache(name: HubName, commit: str) -> None:
    """Delete a commit from the hub's cache; files that another commit shares stay."""
    folder = _cached_repository(name)
    snapshot = folder / "snapshots" / commit
    if not snapshot.is_dir():
        return
    blobs = _linked_blobs(snapshot)
    shutil.rmtree(snapshot)
    for blob in blobs - _linked_blobs(folder / "snapshots"):
        blob.unlink(missing_ok=True)
    # A ref that names a deleted commit would make the client believe that it is cached.
    for ref in list((folder / "refs").rglob("*")):
        if ref.is_file() and ref.read_text("utf-8").strip() == commit:
            ref.unlink()
    if not any((folder / "snapshots").iterdir()):
        shutil.rmtree(folder)


def _cached_repository(name: HubName) -> Path:
    return Path(cache_folder()) / f"models--{name.repository.replace('/', '--')}"


def _linked_blobs(folder: Path) -> set[Path]:
    return {path.resolve() for path in folder.rglob("*") if path.is_symlink()}
