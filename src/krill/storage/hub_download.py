"""Files from the Hugging Face hub.

In: a repository's id, a folder in it. Out: that folder here, whole or not at all. Held in memory: the names
of the repository's files, and what `huggingface_hub` takes to fetch them. Needs the extra `hub`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from glob import escape
from pathlib import Path

from krill.errors import InputError
from krill.storage.atomic import storage_errors
from krill.storage.hub_access import RepositoryKind, hub_errors, open_hub


def hub_files(
    repo_id: str,
    *,
    kind: RepositoryKind = "model",
    endpoint: str | None = None,
    token: str | None = None,
) -> list[str]:
    """The names of all files of a repository."""
    hub = open_hub("reading from the hub", endpoint=endpoint, token=token)
    with _download_errors(repo_id):
        return sorted(hub.list_repo_files(repo_id, repo_type=kind))


def fetch_folder(
    repo_id: str,
    target: Path,
    check: Callable[[Path], None],
    *,
    kind: RepositoryKind = "model",
    endpoint: str | None = None,
    token: str | None = None,
) -> bool:
    """Have the repository's folder that is named like `target`, if `check` does not refuse it; False if the
    repository has none."""
    # Asked first: the client gives back an empty folder when it can't reach the hub.
    files = hub_files(repo_id, kind=kind, endpoint=endpoint, token=token)
    wanted = [name for name in files if name.startswith(f"{target.name}/")]
    if not wanted:
        return False
    hub = open_hub("reading from the hub", endpoint=endpoint, token=token)
    with storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".krill-hub-") as temporary:
        with _download_errors(repo_id):
            hub.snapshot_download(
                repo_id, repo_type=kind, allow_patterns=f"{escape(target.name)}/*", local_dir=temporary
            )
        missing = next((name for name in wanted if not (Path(temporary) / name).is_file()), None)
        if missing is not None:
            raise InputError(
                f"`{missing}` of `{repo_id}` did not come", hint="check the connection, and try again"
            )
        found = Path(temporary) / target.name
        check(found)
        with storage_errors(target):
            found.replace(target)
    return True


def _download_errors(repo_id: str) -> AbstractContextManager[None]:
    return hub_errors(
        InputError,
        repo_id,
        "the download from",
        refused_hint="check the id; for a private repository log in with `hf auth login` or set HF_TOKEN",
        unreachable_hint="check the connection, and whether HF_HUB_OFFLINE is set",
    )
