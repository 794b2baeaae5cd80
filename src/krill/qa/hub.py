"""Caches of features in a dataset repository of the Hugging Face hub: a folder in it for each cache.

Comes in: the folder of a cache, or the name of one. Goes out: the same folder there, or here. Held in memory:
what `huggingface_hub` takes to copy files. A folder appears whole or not at all.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

from krill.dataset.shard import is_plain_name
from krill.errors import InputError
from krill.qa.cache import write_manifest
from krill.qa.stored import read_manifest
from krill.qa.tables import SCHEMAS, check_unit
from krill.storage.checksums import check_file
from krill.storage.hub_access import RepositoryKind
from krill.storage.hub_download import fetch_folder, hub_files
from krill.storage.hub_upload import push_files
from krill.storage.outputs import MANIFEST, stated_checksums

_KIND: Final[RepositoryKind] = "dataset"
_TABLES: Final = tuple(f"{table}-*.arrow" for table in SCHEMAS)


class HubCaches:
    """The caches in one repository."""

    def __init__(self, repository: str, token: str | None = None, endpoint: str | None = None) -> None:
        self._repository = repository
        self._token = token
        self._endpoint = endpoint

    def upload(self, folder: Path, *, private: bool) -> str:
        """Copy a cache there; returns the repository's address."""
        manifest = _checked_manifest(folder)
        # Where the questions lay on this machine stays at home; their fingerprints tell what they were.
        inputs = [{**entry, "path": Path(entry["path"]).name} for entry in manifest["inputs"]]
        with tempfile.TemporaryDirectory(prefix="krill-hub-") as temporary:
            for pattern in _TABLES:
                for path in folder.glob(pattern):
                    (Path(temporary) / path.name).symlink_to(path.resolve())
            write_manifest(Path(temporary), {**manifest, "inputs": inputs})
            return push_files(
                Path(temporary),
                (MANIFEST, *_TABLES),
                self._repository,
                message=f"Features: {folder.name}",
                private=private,
                endpoint=self._endpoint,
                kind=_KIND,
                inside=folder.name,
                token=self._token,
            )

    def fetch(self, folder: Path) -> bool:
        """Have the cache that is named like `folder`; False if the repository has none."""
        return fetch_folder(
            self._repository,
            folder,
            _check_cache,
            kind=_KIND,
            endpoint=self._endpoint,
            token=self._token,
        )

    def fetch_split(self, split: str, cache_dir: Path) -> Path:
        """Have the only cache of a split; returns where it is."""
        files = hub_files(self._repository, kind=_KIND, endpoint=self._endpoint, token=self._token)
        names = [name.removesuffix(f"/{MANIFEST}") for name in files if name.endswith(f"/{MANIFEST}")]
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


def _check_cache(folder: Path) -> None:
    """Refuse what is not whole: others have made it, and its numbers are believed from here on."""
    for number in range(len(_checked_manifest(folder)["units"])):
        check_unit(folder, number)


def _checked_manifest(folder: Path) -> dict[str, Any]:
    """Of a cache whose files are those that were written."""
    manifest = read_manifest(folder)
    for name, expected in stated_checksums(manifest).items():
        if is_plain_name(name):
            check_file(folder / name, expected)
    return manifest
