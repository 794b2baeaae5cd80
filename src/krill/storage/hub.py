"""The Hugging Face hub: folders from it and files to it, when asked and never otherwise.

In: a repository's id, a folder in it, or the names of what may leave a folder. Out: that folder here, whole
or not at all; or the repository, made if it is new, with the files in one commit. Held in memory: the names
of the repository's files, and what `huggingface_hub` takes to move them. Needs the extra `hub`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from glob import escape
from pathlib import Path
from typing import Any, Literal

from krill.errors import ConfigError, InputError, KrillError, MissingExtra, StorageError
from krill.faults import first_line
from krill.storage.atomic import storage_errors

RepositoryKind = Literal["model", "dataset"]


def hub_files(
    repo_id: str,
    *,
    kind: RepositoryKind = "model",
    endpoint: str | None = None,
    token: str | None = None,
) -> list[str]:
    hub = _open_hub("reading from the hub", endpoint=endpoint, token=token)
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
    hub = _open_hub("reading from the hub", endpoint=endpoint, token=token)
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
    hub = _open_hub("pushing to the hub", endpoint=endpoint, token=token)
    with _hub_errors(
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


def _download_errors(repo_id: str) -> AbstractContextManager[None]:
    return _hub_errors(
        InputError,
        repo_id,
        "the download from",
        refused_hint="check the id; for a private repository log in with `hf auth login` or set HF_TOKEN",
        unreachable_hint="check the connection, and whether HF_HUB_OFFLINE is set",
    )


def _open_hub(purpose: str, *, endpoint: str | None, token: str | None) -> Any:
    """The client; without a token it takes the one that the user has logged in with."""
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise MissingExtra(purpose, "hub") from None
    return HfApi(endpoint=endpoint, token=token)


@contextmanager
def _hub_errors(
    raised: type[KrillError], repo_id: str, doing: str, *, refused_hint: str, unreachable_hint: str
) -> Iterator[None]:
    """What the client raises inside, as an error of ours: a wrong id, a refusal, or no hub to be reached."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    # The errors of the HTTP library beneath, be it requests or httpx, and OSError.
    unreachable: Any = HfHubHTTPError.__bases__
    try:
        yield
    except HFValidationError as error:
        raise ConfigError(
            f"`{repo_id}` is not the id of a repository: {first_line(error)}",
            hint="write it as `user/name` or `organization/name`",
        ) from None
    except HfHubHTTPError as error:
        said = f"the hub refused {doing} `{repo_id}`: {first_line(error)}"
        raise raised(said, hint=refused_hint) from None
    except unreachable as error:
        said = f"can't reach the hub for `{repo_id}`: {first_line(error)}"
        raise raised(said, hint=unreachable_hint) from None
