"""Folders that say in a manifest which files they hold: those of `save_to_disk`, and Krill's own output.

In: the manifest, which anybody may have written: what is not the name of a file inside is an `InputError`.
Out: names of files. Held in memory: the manifest.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any, Final, NoReturn

from krill.errors import InputError
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
