"""Files to the Hugging Face hub, when asked and never otherwise.

In: a folder, the names of what may leave it, and a repository's id. Out: the repository, made if it is new,
with these files in one commit. Held in memory: what `huggingface_hub` takes to send them. Needs the extra
`hub`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from krill.errors import StorageError
from krill.storage.hub_access import RepositoryKind, hub_errors, open_hub


def push_files(
    folder: Path,
    names: Sequence[str],
    repo_id: str,
    *,
    message: str,
    private: bool = False,
    endpoint: str | None = None,
    kind: RepositoryKind = "model",
    inside: str = "",
    token: str | None = None,
) -> str:
    """Uploads those of `names` that are in `folder`; returns the repository's address.

    `inside` is the folder of the repository that they go to; `token` goes before the one of the login.
    """
    hub = open_hub("pushing to the hub", endpoint=endpoint, token=token)
    with hub_errors(
        StorageError,
        repo_id,
        "the upload to",
        refused_hint="log in with `hf auth login` or set HF_TOKEN, to a token that may write there",
        unreachable_hint=f"check the connection; what was made is safe in `{folder}`",
    ):
        repository = hub.create_repo(repo_id, repo_type=kind, private=private, exist_ok=True)
        hub.upload_folder(
            repo_id=repository.repo_id,
            repo_type=kind,
            folder_path=folder,
            path_in_repo=inside,
            allow_patterns=list(names),
            commit_message=message,
        )
    return str(repository)
