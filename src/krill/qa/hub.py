"""Caches of features in a dataset repository of the Hugging Face hub: a folder in it for each cache.

Comes in: the folder of a cache, or the name of one. Goes out: the same folder there, or here. Held in memory:
what `huggingface_hub` takes to copy files. A folder appears whole or not at all.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from krill.corpus.streams import first_line
from krill.errors import InputError, MissingExtra
from krill.flow.atomic import storage_errors
from krill.flow.run_folder import MANIFEST
from krill.qa.stored import read_manifest

_KIND = "dataset"


class HubCaches:
    """The caches in one repository."""

    def __init__(self, repository: str, token: str | None = None) -> None:
        try:
            from huggingface_hub import HfApi
        except ImportError:
            raise MissingExtra("a cache on the hub", "hub") from None
        self._repository = repository
        self._api: Any = HfApi(token=token)

    def upload(self, folder: Path, *, private: bool) -> str:
        """Copy a cache there; returns the repository's address."""
        try:
            address = self._api.create_repo(self._repository, repo_type=_KIND, private=private, exist_ok=True)
            self._api.upload_folder(
                repo_id=self._repository,
                repo_type=_KIND,
                folder_path=str(folder),
                path_in_repo=folder.name,
                commit_message=f"Features: {folder.name}",
            )
        except Exception as error:  # whatever the network or the hub can raise
            raise self._refused("written", error) from None
        return str(address)

    def fetch(self, folder: Path) -> bool:
        """Have the cache that is named like `folder`; False if the repository has none."""
        with storage_errors(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".krill-hub-") as temporary:
            try:
                self._api.snapshot_download(
                    self._repository,
                    repo_type=_KIND,
                    allow_patterns=[f"{folder.name}/*"],
                    local_dir=temporary,
                )
            except Exception as error:  # whatever the network or the hub can raise
                raise self._refused("read", error) from None
            found = Path(temporary) / folder.name
            if not found.is_dir():
                return False
            read_manifest(found)  # refuses what is not whole
            with storage_errors(folder):
                found.replace(folder)
        return True

    def fetch_split(self, split: str, cache_dir: Path) -> Path:
        """Have the only cache of a split; returns where it is."""
        try:
            files: list[str] = self._api.list_repo_files(self._repository, repo_type=_KIND)
        except Exception as error:  # whatever the network or the hub can raise
            raise self._refused("read", error) from None
        names = sorted(name.removesuffix(f"/{MANIFEST}") for name in files if name.endswith(f"/{MANIFEST}"))
        found = [name for name in names if "/" not in name and f"-{split}-" in name]
        if len(found) != 1:
            raise InputError(
                f"`{self._repository}` has {len(found)} caches of the split `{split}`:"
                f" {', '.join(names) or 'none at all'}",
                hint="use create_dataset_from_cache with hub_dataset_id, which takes the one that fits",
            )
        if not (cache_dir / found[0]).exists():
            self.fetch(cache_dir / found[0])
        return cache_dir / found[0]

    def _refused(self, what: str, error: Exception) -> InputError:
        return InputError(
            f"the repository `{self._repository}` can't be {what}: {first_line(error)}",
            hint="check the id, the token and the connection",
        )
