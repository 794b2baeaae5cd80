"""From a path in the config to the files behind it, in a fixed order.

A path is a file, glob, folder, Hugging Face `save_to_disk` folder, Krill output folder, URL, or, if nothing
local is there, a hub id. Held in memory: the list of files.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urlsplit

from krill.corpus.folder_manifest import DATASET_DICT, KRILL_OUTPUT, SAVED_DATASET, FolderManifest
from krill.corpus.formats import (
    ARCHIVES,
    COMPRESSIONS,
    FORMATS,
    PAGES,
    Compression,
    CorpusFile,
    DatasetSource,
    Format,
    as_plain_text,
    given,
    known_extensions,
    recognise,
    suffix_of,
)
from krill.corpus.paths_file import listed_names
from krill.corpus.remote import file_system, version_of, with_retries
from krill.corpus.remote_errors import shown_url
from krill.corpus.splits import SplitSlice, canonical, splits_of
from krill.errors import InputError, MissingExtra

Known = tuple[Format, Compression | None]
"""Format and compression."""

_HUB_ID = re.compile(r"(?P<name>\w[\w.-]*/\w[\w.-]*)(?::(?P<config>[\w.-]+))?")

# Addresses of files of this machine, which are read as such: by all threads, and by its own patterns.
_LOCAL = ("file://", "local://")

# Files that come with the data in folders from the hub and hold none.
_METADATA = frozenset({"README.md", "config.json", "dataset_info.json", "dataset_infos.json"})


def discover(
    source: DatasetSource, dataset: int, split: SplitSlice, exclude: Sequence[Path] = ()
) -> Iterable[CorpusFile]:
    """The files of a source's split, in the order in which they are read.

    What lies in a folder of `exclude`, or in a run's work folder, is read only if the path names it itself.
    """
    return _Discovery(source, dataset, split, exclude).files()


class ExcludedFolders:
    """Folders that are skipped when files are looked for: a run would find its own output."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = {str(folder.resolve()) for folder in folders}
        self._known: dict[str, bool] = {}

    def __contains__(self, folder: str) -> bool:
        """Whether a folder is one of them, or below one."""
        if folder not in self._known:
            real = Path(folder).resolve()
            names = {str(real), *map(str, real.parents)}
            self._known[folder] = not names.isdisjoint(self._folders)
        return self._known[folder]


def is_hub_id(path: str) -> bool:
    """Whether a path that does not exist may be a hub id: it has no data file's or folder's name."""
    if _HUB_ID.fullmatch(path) is None:
        return False
    known = suffix_of(path) in FORMATS or suffix_of(path) in COMPRESSIONS
    return not known and not Path(path.partition("/")[0]).exists()


def hub_name(path: str) -> tuple[str, str | None]:
    """Dataset and configuration of `org/name` or `org/name:config`."""
    match = _HUB_ID.fullmatch(path)
    assert match is not None
    return match["name"], match["config"]


class _Discovery:
    def __init__(
        self, source: DatasetSource, dataset: int, split: SplitSlice, exclude: Sequence[Path]
    ) -> None:
        self._source = source
        self._dataset = dataset
        self._split = split
        self._exclude = exclude
        self._path = source.path
        for protocol in _LOCAL:
            self._path = self._path.removeprefix(protocol)

    @cached_property
    def _excluded(self) -> ExcludedFolders:
        return ExcludedFolders(self._exclude)

    def files(self) -> Iterable[CorpusFile]:
        path = self._path
        if self._source.paths_file is not None:
            return self._listed(self._source.paths_file)
        if "://" in path:
            return self._remote(path)
        location = os.path.expanduser(path)  # noqa: PTH111  keeps the path as it was written otherwise
        kind = _kind(path, location)
        if kind is not None and stat.S_ISDIR(kind):
            return self._folder(location)
        if kind is not None:
            self._only_train()
            return [self._named(path, location)]
        if glob.has_magic(path):
            return self._glob(location)
        if is_hub_id(path):
            return [CorpusFile(0, path, path, Format.HUB, None, 0, self._source, self._dataset, remote=True)]
        raise InputError(
            f"no such file: `{path}`", hint="give a file, folder, glob, URL, or a hub dataset as `org/name`"
        )

    def _named(self, path: str, location: str) -> CorpusFile:
        """A local file, whatever its extension."""
        if (name := os.fsencode(path).decode("utf-8", "backslashreplace")) != path:
            raise InputError(
                f"the name of the file `{name}` is not UTF-8", hint="rename the file, or leave it out"
            )
        try:
            status = _status(path, location)
        except FileNotFoundError as error:
            hint = "it is a link to nothing, or was just removed: remove the link, or name other files"
            raise InputError(f"no such file: `{path}`", hint=hint) from error
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"`{path}` is not a regular file", hint="copy what it gives into a file")
        known = self._known(path) or as_plain_text(path)
        return CorpusFile(0, path, location, *known, status.st_size, self._source, self._dataset)

    def _glob(self, location: str) -> Iterable[CorpusFile]:
        path = self._path
        matches = sorted(glob.glob(location, recursive=True))  # noqa: PTH207  relative patterns stay relative
        files = [match for match in matches if not os.path.isdir(match)]  # noqa: PTH112  see `_status`
        if not files:
            hint = f"from here, `ls {path}` should list the files"
            raise InputError(f"no file matches `{path}`", hint=hint)
        base = location.rfind("/", 0, next(re.finditer(r"[*?[]", location)).start()) + 1
        files = [
            file for file in files if _folder_of(file) not in self._excluded and not _in_work(file[base:])
        ]
        if not files:
            raise self._own_output()
        # Files whose names all say one split were picked by hand: then that is what to train on.
        by_split = splits_of(file[base:] for file in files)
        if len(by_split) > 1:
            chosen = set(self._choose(path, by_split))
            files = [file for file in files if file[base:] in chosen]
        else:
            self._only_train(*by_split)
        return (self._named(file, file) for file in files)

    def _folder(self, location: str) -> Iterable[CorpusFile]:
        path, root = self._path, Path(location)
        if (root / KRILL_OUTPUT).is_file():
            self._only_train()
            return self._inside(path, root, FolderManifest(path, root, KRILL_OUTPUT).text_files())
        if (root / DATASET_DICT).is_file():
            names = FolderManifest(path, root, DATASET_DICT).splits()
            (name,) = self._choose(path, {name: [name] for name in names})
            path, root = f"{path.rstrip('/')}/{name}", root / name
            return self._inside(path, root, FolderManifest(path, root, SAVED_DATASET).saved_files())
        if (root / SAVED_DATASET).is_file():
            stated = FolderManifest(path, root, SAVED_DATASET)
            self._only_train(stated.split)
            return self._inside(path, root, stated.saved_files())
        if location in self._excluded:
            raise self._own_output()
        names = _walk(path, root, self._excluded)
        found = {name: known for name in names if (known := self._known(name)) is not None}
        if any(known[0] is not Format.TEXT for known in found.values()):
            found = {
                name: known for name, known in found.items() if PurePosixPath(name).name not in _METADATA
            }
        if not found:
            raise InputError(
                f"nothing to read in the folder `{path}`: no file ends in {known_extensions()}",
                hint=f"read other files as plain text by a glob, such as `{path.rstrip('/')}/**/*.py`",
            )
        return self._inside(path, root, self._choose(path, splits_of(_without_archives(found))))

    def _inside(self, path: str, root: Path, names: Iterable[str]) -> Iterable[CorpusFile]:
        return (self._named(f"{path.rstrip('/')}/{name}", str(root / name)) for name in names)

    def _listed(self, paths_file: str) -> Iterable[CorpusFile]:
        """The files below the path that a list names."""
        self._only_train()
        base = self._path.rstrip("/")
        if "://" not in base:
            return self._inside(base, Path(os.path.expanduser(base)), listed_names(paths_file))  # noqa: PTH111
        return (
            file
            for name in listed_names(paths_file)
            for file in self._remote(f"{base}/{quote(name) if base.startswith('http') else name}", exact=True)
        )

    def _remote(self, url: str, *, exact: bool = False) -> list[CorpusFile]:
        """The files at a URL: one, all that match or are in a folder unless it is to be taken `exact`ly."""
        try:
            filesystem, infos = with_retries(url, lambda: _remote_infos(url, self._exclude, exact=exact))
        except ImportError as error:
            for protocol, extra in (("http", "hub"), ("s3", "s3")):
                if url.startswith(protocol):
                    raise MissingExtra(f"reading `{shown_url(url)}`", extra) from error
            raise InputError(
                f"can't read `{shown_url(url)}`: {error}", hint="pip install what it names"
            ) from error
        if not infos:
            raise InputError(
                f"nothing to read at `{shown_url(url)}`: no file matches",
                hint="check the address, or the pattern",
            )
        by_split = splits_of(infos) if len(infos) > 1 else {"train": list(infos)}
        files = []
        for name in self._choose(shown_url(url), by_split):
            location = filesystem.unstrip_protocol(name)
            # What follows a question mark may be the name, or may hide it.
            known = self._known(name) or self._known(urlsplit(name).path) or as_plain_text(name)
            shown, size, version = shown_url(location), infos[name].get("size"), version_of(infos[name])
            file = CorpusFile(0, shown, location, *known, int(size or 0), self._source, self._dataset, True)
            files.append(replace(file, version=version))
        return files

    def _known(self, name: str) -> Known | None:
        """Format and compression, as the config states or the name says; None if neither does."""
        stated = self._source.format
        return recognise(name) if stated is None else given(name, stated)

    def _choose(self, path: str, by_split: dict[str, list[str]]) -> list[str]:
        chosen = by_split.get(self._split.name) or by_split.get(canonical(self._split.name))
        if chosen is None:
            raise self._no_split(path, by_split)
        return chosen

    def _only_train(self, *also: str | None) -> None:
        name = self._split.name
        if name != "train" and name not in also and canonical(name) not in also:
            raise self._no_split(self._path, ["train"])

    def _no_split(self, path: str, there: Iterable[str]) -> InputError:
        names = ", ".join(f"`{name}`" for name in there)
        return InputError(
            f"no split `{self._split.name}` in `{path}`; there are: {names or 'none'}",
            hint="set `split:` to one of them",
        )

    def _own_output(self) -> InputError:
        return InputError(
            f"all that there is to read in `{self._path}` is this run's own output",
            hint="set `path:` to what is to be read, or `prepared_path:` to another folder",
        )


def _without_archives(found: Mapping[str, Known]) -> Mapping[str, Known]:
    """Archives of pages in a folder are read where it has pages, not where they lie beside other data."""
    if all(format in PAGES for format, _ in found.values()):
        return found
    return {name: known for name, known in found.items() if known[0] not in ARCHIVES}


def _kind(path: str, location: str) -> int | None:
    """The mode of what is there; None if nothing is."""
    try:
        return _status(path, location).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _status(path: str, location: str) -> os.stat_result:
    try:
        return os.stat(location)  # noqa: PTH116  there may be tens of thousands of files
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        hint = "check the path, or take it out of `datasets:`"
        raise InputError(f"can't look at `{path}`: {error.strerror}", hint=hint) from error


def _folder_of(file: str) -> str:
    return file.rpartition("/")[0] or ("/" if file.startswith("/") else ".")


def _in_work(name: str) -> bool:
    """Whether a file lies in the work folder of some run, beside the output that it makes."""
    return any(part.startswith(".") and part.endswith(".krill") for part in name.split("/")[:-1])


def _walk(path: str, root: Path, excluded: ExcludedFolders) -> list[str]:
    """Names of the files below a folder, sorted, without hidden ones and those in `excluded` folders."""

    def fail(error: OSError) -> None:
        raise InputError(
            f"can't list the folder `{path}`: {error.strerror}: `{error.filename}`",
            hint="check the folder's permissions, or name its files",
        ) from error

    names = []
    for folder, subfolders, files in os.walk(root, onerror=fail):
        if folder in excluded:
            subfolders.clear()
            continue
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        below = Path(folder).relative_to(root)
        names += [(below / name).as_posix() for name in files if not name.startswith(".")]
    return sorted(names)


def _remote_infos(url: str, exclude: Sequence[Path], *, exact: bool) -> tuple[Any, dict[str, dict[str, Any]]]:
    """The file system of a URL, and what is known of each file there."""
    filesystem, root = file_system(url)
    # On the web a question mark begins a query.
    if exact:
        names = [root]
    elif glob.has_magic(root.replace("?", "") if url.startswith("http") else root):
        names = _without_own(filesystem, filesystem.glob(root), exclude)
    elif url.endswith("/") or (not url.startswith("http") and filesystem.isdir(root)):
        found = _without_own(filesystem, filesystem.find(root), exclude)
        names = list(_without_archives({name: known for name in found if (known := recognise(name))}))
    else:
        names = [root]
    return filesystem, {name: filesystem.info(name) for name in names}


def _without_own(filesystem: Any, names: Iterable[str], exclude: Sequence[Path]) -> list[str]:
    """Remote files, sorted, without those in a work folder of some run or below one of `exclude`."""
    return [
        name
        for name in sorted(names)
        if not _in_work(name)
        and not any(Path(filesystem.unstrip_protocol(name)).is_relative_to(folder) for folder in exclude)
    ]
