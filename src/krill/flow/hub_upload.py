"""Files to the Hugging Face hub, when asked and never otherwise.

In: a folder, the names of what may leave it, and a repository's id. Out: the repository, made if it is new,
with these files in one commit. Held in memory: what `huggingface_hub` takes to send them. Needs the extra
`hub`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from krill.errors import ConfigError, MissingExtra, StorageError


def push_files(
    folder: Path,
    names: Sequence[str],
    repo_id: str,
    *,
    message: str,
    private: bool = False,
    endpoint: str | None = None,
) -> str:
    """Uploads those of `names` that are in `folder`; returns the repository's address."""
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError:
        raise MissingExtra("pushing to the hub", "hub") from None
    # The errors of the HTTP library beneath, be it requests or httpx, and OSError.
    unreachable: Any = HfHubHTTPError.__bases__
    hub = HfApi(endpoint=endpoint)
    try:
        repository = hub.create_repo(repo_id, private=private, exist_ok=True)
        hub.upload_folder(
            repo_id=repository.repo_id,
            folder_path=folder,
            allow_patterns=list(names),
            commit_message=message,
        )
    except HFValidationError as error:
        raise ConfigError(
            f"`{repo_id}` is not the id of a repository: {_first_line(error)}",
            hint="write it as `user/name` or `organization/name`",
        ) from None
    except HfHubHTTPError as error:
        raise StorageError(
            f"the hub refused the upload to `{repo_id}`: {_first_line(error)}",
            hint="log in with `hf auth login` or set HF_TOKEN, to a token that may write there",
        ) from None
    except unreachable as error:
        raise StorageError(
            f"can't reach the hub for `{repo_id}`: {_first_line(error)}",
            hint=f"check the connection; what was made is safe in `{folder}`",
        ) from None
    return str(repository)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
