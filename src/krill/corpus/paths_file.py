"""Lists of the files to read, one a line, as Common Crawl publishes them (`warc.paths.gz`).

In: the name of a list, local or remote, compressed or not. Out: the names in it, which lead to something
below the path that they belong to: anybody may have written the list. Held in memory: a chunk of it, and a
line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from krill.corpus.formats import COMPRESSIONS, CorpusFile, DatasetSource, Format, suffix_of
from krill.corpus.streams import DecodedStream
from krill.errors import InputError

_LONGEST: Final = 4096
_SHOWN: Final = 80


def listed_names(paths_file: str) -> Iterator[str]:
    """The names, in their order; an InputError for one that is not the name of a file below a path."""
    count = 0
    for number, line in _lines(paths_file):
        if line:
            yield _inside(paths_file, number, line)
            count += 1
    if not count:
        raise InputError(
            f"`{paths_file}` names no files", hint="`paths_file:` is a list of files, one a line"
        )


def _lines(paths_file: str) -> Iterator[tuple[int, bytes]]:
    remote = "://" in paths_file
    location = paths_file if remote else os.path.expanduser(paths_file)  # noqa: PTH111  as written otherwise
    if not remote and not Path(location).is_file():
        raise InputError(f"no such file: `{paths_file}`", hint="set `paths_file:` to a list of files to read")
    size = 0 if remote else Path(location).stat().st_size
    compression = COMPRESSIONS.get(suffix_of(paths_file))
    file = CorpusFile(0, paths_file, location, Format.TEXT, compression, size, DatasetSource(""), 0, remote)
    number, rest = 0, b""
    with DecodedStream(file) as stream:
        for _, chunk in stream.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                number += 1
                yield number, line.strip()
            if len(rest) > _LONGEST:
                raise _refused(paths_file, number + 1, rest)
    yield number + 1, rest.strip()


def _inside(paths_file: str, number: int, line: bytes) -> str:
    name = line.decode("utf-8", "replace")
    plain = "\0" not in name and "\ufffd" not in name and "://" not in name and len(line) <= _LONGEST
    if not plain or PurePosixPath(name).is_absolute() or ".." in name.split("/") or not name.strip("./"):
        raise _refused(paths_file, number, line)
    return name


def _refused(paths_file: str, number: int, line: bytes) -> InputError:
    shown = line[:_SHOWN].decode("utf-8", "backslashreplace")
    return InputError(
        f"`{paths_file}` line {number:,}: `{shown}` is not the name of a file below `path:`",
        hint="a line is a name such as crawl-data/00000.warc.gz, and `path:` what comes before it",
    )
