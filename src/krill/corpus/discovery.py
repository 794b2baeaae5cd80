"""From a path in the config to the files behind it, in a fixed order.

A path is a file, glob, folder, Hugging Face `save_to_disk` folder, Krill output folder, URL, or, if nothing
local is there, a hub id. Folders of the two kinds say in a manifest what they hold; as anybody may have
written it, what is not the name of a file inside is an `InputError`. Held in memory: the list of files, and a
manifest.
"""

from __future__ import annotations

import glob
import json
import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from krill.corpus.formats import (
    COMPRESSIONS,
    FORMATS,
    CorpusFile,
    DatasetSource,
    Format,
    as_plain_text,
    known_extensions,
    recognise,
    suffix_of,
)
from krill.corpus.remote import file_system, version_of, with_retries
from krill.corpus.remote_errors import shown_url
from krill.corpus.splits import SplitSlice, canonical, splits_of
from krill.errors import InputError, MissingExtra
from krill.faults import first_line
from krill.storage.input_file import MOST_MANIFEST, read_input

KRILL_OUTPUT: Final = "krill-run.json"
DATASET_DICT: Final = "dataset_dict.json"
SAVED_DATASET: Final = "state.json"


class FolderManifest:
    """One manifest: the file `name` in the folder `root`, which messages call `path`."""

    def __init__(self, path: str, root: Path, name: str) -> None:
        self._path = path
        self._name = name
        try:
            value = json.loads(read_input(root / name, MOST_MANIFEST))
        except FileNotFoundError:
            raise InputError(f"no `{name}` in `{path}`", hint="get the folder again as a whole") from None
        except OSError as error:
            self._refuse(f"can't read `{name}` in `{path}`: {error.strerror}")
        except RecursionError:
            self._refuse(f"can't read `{name}` in `{path}`: it is nested too deeply")
        except ValueError as error:
            self._refuse(f"can't read `{name}` in `{path}`: {first_line(error)}")
        if not isinstance(value, dict):
            self._refuse(f"`{name}` in `{path}` is not a JSON object")
        self._value: dict[str, Any] = value

    def text_files(self) -> list[str]:
        """The kept documents of an earlier run (`output: text` or `both`)."""
        text = self._value.get("text") or {}
        shards = text.get("shards") or [] if isinstance(text, dict) else self._misshapen("text", text)
        if not shards:
            raise InputError(
                f"`{self._path}` holds only tokens, no text to read",
                hint="make it with `output: text` or `output: both`, or name its source instead",
            )
        return self._files("text.shards", shards, "file")

    def splits(self) -> list[str]:
        """The splits of a dataset: a folder of each name."""
        names = self._value.get("splits") or []
        if not isinstance(names, list):
            self._misshapen("splits", names)
        return list(dict.fromkeys(self._inside(name) for name in names))

    def saved_files(self) -> list[str]:
        files = self._files("_data_files", self._value.get("_data_files") or [], "filename")
        if not files:
            self._refuse(f"`{self._name}` in `{self._path}` names no file")
        return files

    @property
    def split(self) -> str | None:
        name = self._value.get("_split")
        return name if isinstance(name, str) else None

    def _files(self, place: str, entries: Any, key: str) -> list[str]:
        if not isinstance(entries, list):
            self._misshapen(place, entries)
        for entry in entries:
            if not isinstance(entry, dict):
                self._misshapen(place, entry)
        return [self._inside(entry.get(key)) for entry in entries]

    def _inside(self, name: Any) -> str:
        """A name that leads to something inside of the folder."""
        plain = isinstance(name, str) and "\0" not in name and name.strip("./") != ""
        if not plain or PurePosixPath(name).is_absolute() or ".." in name.split("/"):
            self._refuse(f"the manifest in `{self._path}` names `{_shown(name)}`, which is not inside it")
        if _shown(name, len(name)) != name:
            self._refuse(f"the manifest in `{self._path}` names `{_shown(name)}`, which is not UTF-8")
        return str(name)

    def _misshapen(self, place: str, value: Any) -> NoReturn:
        self._refuse(f"`{place}` of `{self._name}` in `{self._path}` is a `{type(value).__name__}`: no files")

    def _refuse(self, fact: str) -> NoReturn:
        hint = "get the folder again, or name the files in it by a glob, such as"
        raise InputError(fact, hint=f"{hint} `{self._path.rstrip('/')}/*.parquet`") from None


def _shown(name: Any, most: int = 80) -> str:
    """A name as text, or of which type it is instead."""
    if not isinstance(name, str):
        return type(name).__name__
    return name[:most].encode("utf-8", "backslashreplace").decode()


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
        known = recognise(path) or as_plain_text(path)
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
        found = {name: known for name in names if (known := recognise(name)) is not None}
        if any(known[0] is not Format.TEXT for known in found.values()):
            found = {
                name: known for name, known in found.items() if PurePosixPath(name).name not in _METADATA
            }
        if not found:
            raise InputError(
                f"nothing to read in the folder `{path}`: no file ends in {known_extensions()}",
                hint=f"read other files as plain text by a glob, such as `{path.rstrip('/')}/**/*.py`",
            )
        return self._inside(path, root, self._choose(path, splits_of(found)))

    def _inside(self, path: str, root: Path, names: Iterable[str]) -> Iterable[CorpusFile]:
        return (self._named(f"{path.rstrip('/')}/{name}", str(root / name)) for name in names)

    def _remote(self, url: str) -> list[CorpusFile]:
        try:
            filesystem, infos = with_retries(url, lambda: _remote_infos(url, self._exclude))
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
            known = recognise(name) or recognise(urlsplit(name).path) or as_plain_text(name)
            shown, size, version = shown_url(location), infos[name].get("size"), version_of(infos[name])
            file = CorpusFile(0, shown, location, *known, int(size or 0), self._source, self._dataset, True)
            files.append(replace(file, version=version))
        return files

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


def _remote_infos(url: str, exclude: Sequence[Path]) -> tuple[Any, dict[str, dict[str, Any]]]:
    """The file system of a URL, and what is known of each file there."""
    filesystem, root = file_system(url)
    # On the web a question mark begins a query.
    if glob.has_magic(root.replace("?", "") if url.startswith("http") else root):
        names = _without_own(filesystem, filesystem.glob(root), exclude)
    elif url.endswith("/") or (not url.startswith("http") and filesystem.isdir(root)):
        found = _without_own(filesystem, filesystem.find(root), exclude)
        names = [name for name in found if recognise(name) is not None]
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
