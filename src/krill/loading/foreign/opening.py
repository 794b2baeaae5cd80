"""From a path or URL to the rows behind it.

In: a Hugging Face `save_to_disk` folder, Parquet, Arrow or datatrove's `.ds` files (one, a folder, a glob),
here or at any URL that fsspec knows, or a URL of a Krill dataset; a local one is opened by
`loading/dataset.py`. Out: a `RowSource`; the files that are there decide of which format. Held in memory:
what the source says.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from krill.corpus.splits import canonical, splits_of
from krill.dataset.export.token_files import INDEX_SUFFIX
from krill.dataset.manifest import MANIFEST_NAME
from krill.dataset.rows import RowSource
from krill.errors import ConfigError, InputError
from krill.loading.dataset import OnMissing
from krill.loading.foreign.arrow_rows import open_arrow_rows, saved_files, split_folder
from krill.loading.foreign.ds_rows import open_ds_rows
from krill.loading.foreign.parquet_rows import open_parquet_rows
from krill.loading.foreign.remote import (
    RemoteKrillRows,
    RemoteRowFiles,
    RemoteShard,
    list_files,
    names_files,
    read_small,
)
from krill.loading.foreign.row_files import LocalRowFiles, RowFiles, is_url, reading
from krill.loading.foreign.shard_cache import ShardCache, default_cache_dir
from krill.storage.input_file import MOST_MANIFEST, read_input
from krill.storage.outputs import ListedFiles

_PARQUET = (".parquet",)
_ARROW = (".arrow", ".arrows", ".ipc", ".feather")
_DATATROVE = (".ds",)


class Location:
    """A folder, file or glob that holds a dataset, on this machine or at a URL; whole files of a URL come
    through the cache."""

    def __init__(self, name: str, cache: ShardCache) -> None:
        self.name = name
        self.remote = is_url(name)
        self._cache = cache
        self._path = Path(name).expanduser()
        if not (self.remote or self._path.exists() or glob.has_magic(name)):
            raise InputError(
                f"no such file or folder: `{name}`", hint="give a dataset's folder, Parquet files, or a URL"
            )

    def join(self, name: str) -> str:
        return f"{self.name.rstrip('/')}/{name}" if self.remote else str(self._path / name)

    def read(self, name: str) -> bytes | None:
        """All of a small file of this folder; None if it is not there."""
        if self.remote:
            return None if names_files(self.name) else read_small(self.join(name))
        path = self._path / name
        if not self._path.is_dir() or not path.exists():
            return None
        with reading(str(path)):
            return read_input(path, MOST_MANIFEST)

    def find(self, suffixes: tuple[str, ...]) -> list[str]:
        """Sorted paths of the file itself, of what matches, or of what is in the folder."""
        if self.remote:
            return list_files(self.name, suffixes)
        if self._path.is_dir():
            paths = [str(path) for path in self._path.rglob("[!.]*")]
        else:
            paths = glob.glob(str(self._path), recursive=True)  # noqa: PTH207  it may be absolute
        return sorted(path for path in paths if path.lower().endswith(suffixes))

    def files(self, paths: Sequence[str]) -> RowFiles:
        if self.remote:
            return RemoteRowFiles([RemoteShard.describe(url) for url in paths], self._cache)
        return LocalRowFiles(paths)


def open_source(
    path: str | Path,
    *,
    split: str = "train",
    reading_bytes: int,
    verify: bool = False,
    on_missing: OnMissing = "fail",
    cache_dir: str | Path | None = None,
    cache_size: int,
) -> RowSource:
    """The rows of a split. `reading_bytes` bounds what reading remembers, `cache_size` the folder
    `cache_dir`, which what is remote is fetched into and Parquet decoded into."""
    if on_missing == "skip":
        raise ConfigError(
            f'`on_missing="skip"` is for Krill datasets on this machine, not for `{path}`',
            hint="leave it out",
        )
    cache = ShardCache(default_cache_dir() if cache_dir is None else cache_dir, cache_size)
    location = Location(str(path), cache)
    manifest = location.read(MANIFEST_NAME) if location.remote else None
    if manifest is not None:  # what is fetched is always verified
        return RemoteKrillRows(location.name, manifest, cache, split=split, cache_bytes=reading_bytes)
    return _foreign(location, split, reading_bytes, cache, verify=verify)


def _foreign(
    location: Location, split: str, reading_bytes: int, cache: ShardCache, *, verify: bool
) -> RowSource:
    dataset_dict = location.read("dataset_dict.json")
    if dataset_dict is not None:
        folder = split_folder(location.name, dataset_dict, split)
        location, split = Location(location.join(folder), cache), "train"
    state = location.read("state.json")
    if state is not None:
        if verify:
            raise _not_listed(location.name)
        _only_train(location.name, split)
        names, mark = saved_files(location.name, state)
        files = location.files([location.join(file) for file in names])
        return open_arrow_rows(location.name, files, cache_bytes=reading_bytes, mark=mark)
    return _data_files(location, split, reading_bytes, cache, verify=verify)


def _data_files(
    location: Location, split: str, reading_bytes: int, cache: ShardCache, *, verify: bool
) -> RowSource:
    """Parquet, Arrow or `.ds` files without a description of the dataset."""
    found = location.find((*_PARQUET, *_ARROW, *_DATATROVE))
    for suffixes in (_PARQUET, _ARROW, _DATATROVE):
        names = [name for name in found if name.lower().endswith(suffixes)]
        if names:
            break
    else:
        raise InputError(
            f"nothing to load in `{location.name}`: no dataset, and no Parquet, Arrow or `.ds` file",
            hint="give a folder of `krill preprocess` or `save_to_disk`, or Parquet files",
        )
    chosen = _of_split(location.name, names, split)
    if verify:
        _verify(location, chosen if suffixes != _DATATROVE else [*chosen, *map(_index_of, chosen)])
    files = location.files(chosen)
    if suffixes == _PARQUET:
        return open_parquet_rows(location.name, files, cache=cache, reading_bytes=reading_bytes)
    if suffixes == _DATATROVE:
        indexes = location.files([_index_of(name) for name in chosen])
        return open_ds_rows(location.name, files, indexes, cache_bytes=reading_bytes)
    return open_arrow_rows(location.name, files, cache_bytes=reading_bytes)


def _index_of(name: str) -> str:
    return name + INDEX_SUFFIX


def _verify(location: Location, names: Sequence[str]) -> None:
    """Hold files that `krill export` wrote against its checksums; others have none."""
    listed = ListedFiles()
    for name in names:
        if location.remote or not listed.check(name):
            raise _not_listed(location.name)


def _not_listed(path: str) -> ConfigError:
    return ConfigError(
        f"`verify=True` needs checksums, and `{path}` was not written by Krill", hint="leave it out"
    )


def _of_split(name: str, paths: Sequence[str], split: str) -> list[str]:
    """Those of a split, if file names have several; without, all are for training."""
    # The folders above have names of their own; they may be a URL's, so this is about characters.
    shared = os.path.commonprefix(paths).rfind("/") + 1  # noqa: RUF071
    by_split = splits_of(path[shared:] for path in paths)
    if len(by_split) == 1 and split not in by_split:
        _only_train(name, split)
        return list(paths)
    chosen = by_split.get(split) or by_split.get(canonical(split))
    if chosen is None:
        raise _no_split(name, split, list(by_split))
    return [paths[0][:shared] + path for path in chosen]


def _only_train(name: str, split: str) -> None:
    if split != "train":
        raise _no_split(name, split, ["train"])


def _no_split(name: str, split: str, there: Sequence[str]) -> InputError:
    names = ", ".join(f"`{each}`" for each in there)
    return InputError(
        f"no split `{split}` in `{name}`; there are: {names}", hint="set `split=` to one of them"
    )
