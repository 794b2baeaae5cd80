"""Runs as a report finds them: finished, unfinished or in the making, in a folder or in an object store.

In: the path or URL of an output. Out: what its manifest says, or, of an unfinished run, what the run is and
how far it has come. Held in memory: the manifest, and a file of the run while it is asked for.

Nothing is written and no lock is taken: a run that works goes on meanwhile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import orjson

from krill.budget import format_size, resident_bytes
from krill.errors import BudgetError, InputError
from krill.report.figures import Figures
from krill.storage.commits import recorded_unit
from krill.storage.input_file import MOST_MANIFEST, json_bytes, read_input
from krill.storage.object_store import ObjectStore, is_object_url
from krill.storage.outputs import MANIFEST
from krill.storage.run import RUN

FORMAT: Final = 1
TOKENIZER: Final = "tokenizer.json"
TRAINING_BEGUN: Final = ".krill-begun.json"
TIMELINE: Final = "timeline.json"
MOST_READ: Final = 64_000_000
_HINT: Final = "name the output of a `krill` command, such as `preprocess.prepared_path`"


class RunFiles(Protocol):
    """The files of a run, by their names from its folder on."""

    def read(self, name: str, most: int) -> bytes | None:
        """A file; None where there is none."""

    def names(self, folder: str) -> list[str]:
        """The files below a folder."""


@dataclass(frozen=True, slots=True)
class FolderFiles:
    folder: Path

    def read(self, name: str, most: int) -> bytes | None:
        path = self.folder / name
        try:
            return read_input(path, most)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise InputError(f"cannot read `{path}`: {error.strerror or error}", hint=_HINT) from error

    def names(self, folder: str) -> list[str]:
        root = self.folder / folder
        return [path.relative_to(self.folder).as_posix() for path in root.rglob("*") if path.is_file()]


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """Objects; `prefix` is the run's folder under the store's URL."""

    store: ObjectStore
    prefix: str

    def read(self, name: str, most: int) -> bytes | None:
        key = f"{self.prefix}/{name}"
        size = self.store.size(key)
        if size is not None and size > most:
            url = self.store.url_of(key)
            raise InputError(f"`{url}` has {size:,} bytes, and at most {most:,} are read", hint=_HINT)
        return None if size is None else self.store.read(key)

    def read_part(self, name: str, end: int) -> bytes:
        """A file's bytes up to `end`."""
        return self.store.read_part(f"{self.prefix}/{name}", 0, end)

    def names(self, folder: str) -> list[str]:
        found = self.store.sizes(f"{self.prefix}/{folder}")
        return [name.removeprefix(f"{self.prefix}/") for name in found]


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """One run; `name` is what the page calls it. `units` are, of an unfinished one, the finished tasks of
    each stage."""

    path: str
    name: str
    state: Literal["finished", "unfinished"]
    command: str
    figures: Figures
    files: RunFiles
    folder: Path | None
    timeline: Figures
    units: dict[str, int] = field(default_factory=dict)
    replaced: bool = False

    @property
    def config(self) -> Figures:
        return self.figures.inner("config", wanted=False)


def open_run(path: str, limit: int) -> ReportedRun:
    """The run whose output is at `path`. Refuses what is not one, and one whose manifest takes more than the
    budget has left."""
    path = path.rstrip("/") or "/"
    output, work, folder = _places(path)
    begun = _object(work, RUN, limit)
    manifest = _object(output, MANIFEST, limit)
    if manifest is not None:
        return _run(path, "finished", manifest, output, folder, replaced=bool(begun))
    training = _object(output, TRAINING_BEGUN, limit)
    if training is not None:
        return _run(path, "unfinished", training, output, folder, command="train")
    if begun:
        timeline = _object(work, TIMELINE, limit)
        found = _run(path, "unfinished", begun, output, folder, timeline=timeline)
        return found if begun.get("spill_dir") else _with_units(found, work)
    file = folder if folder is None or folder.is_file() else folder / TOKENIZER
    if file is not None and file.name == TOKENIZER and file.is_file():
        files = FolderFiles(file.parent)
        return _run(path, "finished", {}, files, file.parent, command="tokenizer", name=file.parent.name)
    raise InputError(f"`{path}` {_what_it_is(folder)}", hint=_HINT)


def _places(path: str) -> tuple[RunFiles, RunFiles, Path | None]:
    """The output, the folder of its unfinished run, and the output as a folder of this machine."""
    if is_object_url(path):
        parent, _, name = path.rpartition("/")
        store = ObjectStore(parent)
        return StoredFiles(store, name), StoredFiles(store, f".{name}.krill"), None
    folder = Path(path)
    real = folder.resolve() if folder.is_symlink() else folder
    return FolderFiles(real), FolderFiles(real.absolute().parent / f".{real.absolute().name}.krill"), real


def _object(files: RunFiles, name: str, limit: int) -> dict[str, Any] | None:
    content = files.read(name, min(MOST_MANIFEST, limit))
    if content is None:
        return None
    held, needed = resident_bytes(), json_bytes(content)
    if held + needed > limit:
        raise BudgetError(
            f"the budget is too small: `{name}` takes {format_size(needed)} to read beside"
            f" {format_size(held)} in use, given {format_size(limit)}",
            hint=f"--memory {-(-(held + needed) * 11 // 10 // 10**6)}MB would do",
        )
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise InputError(f"`{name}` of the run is not valid JSON: {error}", hint=_HINT) from None
    if not isinstance(value, dict):
        raise InputError(f"`{name}` of the run is not a JSON object", hint=_HINT)
    return value


def _run(
    path: str,
    state: Literal["finished", "unfinished"],
    value: dict[str, Any],
    files: RunFiles,
    folder: Path | None,
    *,
    command: str | None = None,
    name: str | None = None,
    timeline: dict[str, Any] | None = None,
    replaced: bool = False,
) -> ReportedRun:
    figures = Figures(value)
    command = figures.text("command", wanted=False) or command or _guessed_command(figures)
    version = figures.count("format", wanted=False)
    if version not in (None, FORMAT):
        figures.note(f"`format` is {version}, and this version knows {FORMAT}: what is new is left out")
    kept = figures.inner("timeline", wanted=False) if timeline is None else Figures(timeline)
    name = name or Path(path).name or path
    return ReportedRun(path, name, state, command, figures, files, folder, kept, replaced=replaced)


def _guessed_command(figures: Figures) -> str:
    """What an unfinished run does, whose file does not say it."""
    config = figures.inner("config", wanted=False).values
    known = {"preprocess": "preprocess", "vocab_size": "tokenizer train", "to": "export"}
    known |= {"doc_stride": "qa prepare", "train": "train"}
    return next((command for key, command in known.items() if key in config), "unknown")


def _with_units(run: ReportedRun, work: RunFiles) -> ReportedRun:
    """How many tasks each stage has committed, by the records that lie in its folder."""
    for name in work.names(""):
        found = re.fullmatch(r"(?:stages/|[0-9a-f]{64}/)([^/]+)/([^/]+)", name)
        if found and recorded_unit(found[2]) is not None:
            run.units[found[1]] = run.units.get(found[1], 0) + 1
    return run


def _what_it_is(folder: Path | None) -> str:
    if folder is None:
        return f"is not the output of a run: it has no `{MANIFEST}`, and no unfinished run is beside it"
    if not folder.exists():
        return "does not exist"
    if not folder.is_dir():
        return "is a file, not the output of a run"
    return f"is not the output of a run: it has no `{MANIFEST}`, and no unfinished run is beside it"
