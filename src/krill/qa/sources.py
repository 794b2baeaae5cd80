"""Where questions come from: a file, a folder, or a dataset of the hub.

In: a path or a hub id, and a split. Out: paragraphs in order, and what the source is by content,
so that a cache of another one is never taken for it. Held in memory: what is read ahead, a paragraph.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from krill.corpus.fingerprint import fingerprint
from krill.corpus.formats import CorpusFile, DatasetSource, Format, recognise
from krill.corpus.streams import DecodedStream
from krill.errors import InputError, MissingExtra
from krill.faults import first_line
from krill.qa.examples import Paragraph, grouped, line_paragraphs, squad_paragraphs

_READERS: Final = {Format.JSON_ARRAY: squad_paragraphs, Format.JSON_LINES: line_paragraphs}
_FORMATS: Final = "SQuAD's JSON (.json), or JSON lines of id, question, context and answers (.jsonl)"
# The same split by its other name.
_ALSO: Final = {"validation": "dev", "dev": "validation"}
_SPLITS: Final = ("train", "validation", "dev", "test")
DEFAULT_SPLIT: Final = "train"
_BATCH_ROWS: Final = 256


def open_source(name: str | Path, split: str | None = None) -> Source:
    """A file, a folder with a file for the split or a saved dataset, or a hub id.

    A file is one split; which, its name may say. Without a `split` any file will do, and of all else the one
    for training is taken.
    """
    path = Path(name).expanduser()
    if path.is_file():
        if split is not None:
            _check_split(path.name, split, str(name))
        return _FileSource(str(name), (_described(path, str(name)),))
    if not path.is_dir():
        if _is_path(str(name)):
            raise InputError(
                f"there is no file or folder `{name}`",
                hint="check the path; a dataset of the hub is `name` or `user/name`",
            )
        return _DatasetSource(str(name), split, saved=False)
    if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
        return _DatasetSource(str(name), split, saved=True)
    return _FileSource(
        str(name), [_described(file, str(file)) for file in _split_files(path, split or DEFAULT_SPLIT)]
    )


def _is_path(name: str) -> bool:
    """Whether it can't be a hub id; asking the hub for it would take a while, and then fail."""
    return name.startswith(("/", "./", "../", "~")) or name.count("/") > 1 or recognise(name) is not None


class _FileSource:
    """Questions in a fixed order; of `bytes` in all (None = unknown), `position` were read so far."""

    def __init__(self, name: str, files: Sequence[CorpusFile]) -> None:
        self.name = name
        self.position = 0
        self._files = files
        packed = any(file.compression for file in files)
        self.bytes = sum(file.bytes for file in files) if not packed else None

    def fingerprints(self) -> list[dict[str, Any]]:
        return [fingerprint(file) for file in self._files]

    def paragraphs(self, longest: int | None = None) -> Iterator[Paragraph]:
        """All paragraphs from the beginning; RecordTooLong for a record of a file above `longest` bytes."""
        before = 0
        for file in self._files:
            with DecodedStream(file) as stream:
                for paragraph in _READERS[file.format](stream, file.path, longest):
                    self.position = before + stream.offset
                    yield paragraph
                before += stream.offset


class _DatasetSource:
    """Rows of a dataset that Hugging Face `datasets` opens; its files stay on disk."""

    def __init__(self, name: str, split: str | None, *, saved: bool) -> None:
        self.name = name
        self.bytes: int | None = None
        self.position = 0
        self._dataset = _opened(name, split, saved=saved)
        missing = {"id", "question", "context", "answers"} - set(self._dataset.column_names)
        if missing:
            raise InputError(
                f"`{name}` has no column {', '.join(f'`{column}`' for column in sorted(missing))}",
                hint="give a dataset in SQuAD's columns: id, question, context, answers",
            )

    def fingerprints(self) -> list[dict[str, Any]]:
        # Of the table that `datasets` has on disk and of what was done to it; rows tell stale files apart.
        own = f"{self._dataset._fingerprint} {len(self._dataset)} {self._dataset.features}"
        digest = hashlib.blake2b(own.encode(), digest_size=16).hexdigest()
        return [{"path": self.name, "bytes": int(self._dataset.data.nbytes), "fingerprint": digest}]

    def paragraphs(self, longest: int | None = None) -> Iterator[Paragraph]:
        return grouped(self._rows(), self.name)

    def _rows(self) -> Iterator[dict[str, Any]]:
        for batch in self._dataset.iter(batch_size=_BATCH_ROWS):
            columns = [batch[column] for column in ("id", "question", "context", "answers")]
            for number, question, context, answers in zip(*columns, strict=True):
                yield {"id": number, "question": question, "context": context, "answers": answers}


Source = _FileSource | _DatasetSource


def _described(path: Path, name: str) -> CorpusFile:
    known = recognise(path.name)
    if known is None or known[0] not in _READERS:
        raise InputError(f"`{name}` is not in a supported format", hint=f"give {_FORMATS}")
    return CorpusFile(0, name, str(path), known[0], known[1], path.stat().st_size, DatasetSource(name), 0)


def _check_split(file_name: str, split: str, name: str) -> None:
    """Refuse a split that a file can't be, or that its name contradicts."""
    words = re.split(r"[^a-z]+", file_name.lower())
    own = [known for known in _SPLITS if known in words] or list(_SPLITS)
    if split not in own and _ALSO.get(split) not in own:
        raise InputError(
            f"`{name}` has no split `{split}`: it is one split, {' or '.join(f'`{one}`' for one in own)}",
            hint=f"give the file of the split `{split}`, or leave the split out to take all of this one"
            if split in _SPLITS
            else f"a file's split is one of {', '.join(f'`{one}`' for one in _SPLITS)}",
        )


def _split_files(folder: Path, split: str) -> list[Path]:
    """The files of a split, by their names: `train.json`, `train-v2.0.json`, `part-train-0.jsonl`."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and _is_readable(path.name)]
    for wanted in (split, _ALSO.get(split, split)):
        for fits in (str.startswith, str.__contains__):
            found = [path for path in files if fits(path.name, wanted)]
            if found:
                return found
    raise InputError(
        f"the folder `{folder}` has no file for the split `{split}`",
        hint=f"name it `{split}.json` or `{split}.jsonl`: {_FORMATS}",
    )


def _is_readable(name: str) -> bool:
    known = recognise(name)
    return known is not None and known[0] in _READERS


def _opened(name: str, split: str | None, *, saved: bool) -> Any:
    try:
        import datasets
    except ImportError:
        raise MissingExtra(f"reading `{name}`", "hub") from None
    try:
        if not saved:
            return datasets.load_dataset(name, split=split or DEFAULT_SPLIT)
        found = datasets.load_from_disk(name)
    except Exception as error:  # whatever the network, the hub or the dataset's description can raise
        what = "can't be opened" if saved else "is not a file or folder, and can't be downloaded from the hub"
        raise InputError(f"`{name}` {what}: {first_line(error)}", hint="check the path or the id") from None
    if not isinstance(found, datasets.DatasetDict):
        if split not in (None, str(found.split or split)):
            raise InputError(f"`{name}` has no split `{split}`", hint=f"it is the split `{found.split}`")
        return found
    own, split = list(found), split or DEFAULT_SPLIT
    if split not in own:
        raise InputError(
            f"`{name}` has no split `{split}`", hint=f"its splits are {', '.join(f'`{one}`' for one in own)}"
        )
    return found[split]
